// Package worklease coordinates work through leases that carry a checkpoint.
//
// A lock answers who owns the work now. A lease of this package also answers
// what the next owner needs: how far the work came, and how its last holder
// left. A holder takes the lease on a named piece of work, stores its progress
// in the same step that renews the lease, and declares an exit when it leaves;
// its successor reads both. A holder that was superseded, however slow it was
// to notice, is fenced: its writes to the lease are refused.
//
// [New] makes a [Lease] on a backend: backend/memory for one process,
// backend/postgres for many. Packages worker, leader and pool run the whole
// life of a lease around a function of yours.
//
// # Guarantees
//
//   - At most one live lease exists for a work ID, by the backend's clock.
//   - Fencing tokens of a work ID only rise; a checkpoint, renewal, release or
//     removal under any but the newest is refused with [ErrFenced].
//   - A successor reads the last acknowledged checkpoint, or a later one that
//     was really sent, and exactly how the lease was left.
//   - While a renewal context is not done, nobody else was given the lease, as
//     long as clocks run at the same rate; they need not agree on the time.
//   - No call of this package outlasts its context, a Sweep by a second at most
//     and a Checkpoint inside the caller's own transaction excepted, and no stopped
//     renewal outlasts its stop, whether the driver below comes back or not.
//
// # Not guaranteed
//
//   - Effects outside the lease store are not fenced: make them idempotent, or
//     fence them with [Token.FencingToken].
//   - What a holder did after its last checkpoint is done again by the next.
//   - An operation that ended with an error which matches no sentinel may have
//     happened or not.
package worklease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/agenda"
	"github.com/aetomala/worklease/internal/batch"
	"github.com/aetomala/worklease/internal/bounded"
	"github.com/aetomala/worklease/internal/claim"
	"github.com/aetomala/worklease/internal/ident"
	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/wake"
)

// Lease acquires leases for one holder and works on them. [New] makes one; a
// process needs only one for any number of work IDs. It is safe for concurrent
// use.
//
// Every method but a waiting Acquire makes one attempt. It returns when the
// backend answers or, with an error that matches ctx.Err(), when ctx ends: what
// it had sent may then have happened or not. An error names the operation, the
// work ID and the holder; errors.Is and errors.As reach the sentinel or the
// driver's error in it.
//
// Methods may be added in a minor release: a wrapper embeds the interface. Even so it
// hides what worker, leader and pool find in a Lease of [New] beside these methods.
// They then give back an acquisition that was not used only as nearly as Forget and
// Release can, do not know which of the backend's errors pass, and are not told when a
// lease is freed, but poll. StartRenewal renews without the wrapper's Renew, and a
// waiting Acquire repeats itself without the wrapper: a [LeaseObserver] sees all of
// that.
type Lease interface {
	// Acquire takes the lease on workID and returns its token.
	//
	// It makes one attempt. With [WithWaitForLease] it keeps trying until ctx
	// ends, each time after half to the whole of the poll interval (2 s unless
	// [WithPollInterval] says otherwise). Between two polls it tries once more when
	// the lease lapses, if the backend said when that would be, and when a
	// [backend.Notifier] tells that the lease may have been freed.
	//
	// Errors: [ErrLeaseHeld] while the lease is held, also by this Lease's own
	// HolderID. One that matches ctx.Err() when ctx ends; a lease that was
	// taken all the same is put back as it was found. One that matches no
	// sentinel for a workID that is empty, not valid UTF-8, holds a NUL or is
	// longer than 1,024 bytes. Any other error is the backend's; the lease may
	// then have been taken, and lapses after the TTL.
	//
	// An attempt that took more than a tenth of the TTL is followed by one
	// Renew, so that a token has its time before it; an attempt that took longer
	// than the TTL gives no token.
	Acquire(ctx context.Context, workID string, opts ...AcquireOption) (Token, error)

	// ReadCheckpoint returns the state that was stored last and how and by whom
	// the lease was left before. State is nil when there is none.
	//
	// Errors: [ErrFenced].
	ReadCheckpoint(ctx context.Context, token Token) (Checkpoint, error)

	// Checkpoint stores state and extends the lease by the TTL in one step. A nil
	// and an empty state both erase what was stored. A lease that has lapsed but
	// that nobody has taken is revived.
	//
	// A ctx can make it part of a transaction of the caller's (see
	// backend/postgres.WithTx). It then returns when the backend does, whatever
	// becomes of ctx, and the lease's window stays where it was, since the write may
	// still be rolled back.
	//
	// Errors: [ErrFenced]; [ErrLeaseExpired] after this holder's own Release.
	// Nothing is written then.
	Checkpoint(ctx context.Context, token Token, state []byte) error

	// Renew extends a live lease by the TTL. [Lease.StartRenewal] does so by
	// itself.
	//
	// Errors: [ErrFenced]; [ErrLeaseExpired] when the lease has lapsed or was
	// released.
	Renew(ctx context.Context, token Token) error

	// Release declares how the holder leaves, ExitFinished, ExitAbandoned or
	// ExitRetired, and frees the lease at once. Stop a renewal first, and do not
	// pass its context: it may have ended.
	//
	// Errors: [ErrInvalidExitMode] for any other mode, before the backend is
	// reached; [ErrFenced]; [ErrLeaseExpired] when the lease has lapsed or was
	// released before, in which case the first exit stands. Nothing is recorded
	// then.
	Release(ctx context.Context, token Token, mode ExitMode) error

	// Forget deletes the lease's row and state, also after Release. The next
	// holder sees ExitNone.
	//
	// Errors: [ErrFenced] when a successor has the lease or the row is gone.
	Forget(ctx context.Context, token Token) error

	// StartRenewal keeps the lease renewed until stopRenewal is called, ctx ends
	// or the lease is lost, every half TTL unless [WithRenewalInterval] says
	// otherwise. It does not block.
	//
	// renewCtx is a child of ctx. It is cancelled with the cause
	//
	//   - [ErrFenced] when a successor has the lease or its row is gone,
	//   - [ErrLeaseWindowExhausted] when no renewal succeeded in time, also
	//     while a call hangs; it wraps the last renewal's error,
	//   - both ErrLeaseWindowExhausted and [ErrLeaseExpired], at once, when the
	//     backend says that the lease has lapsed or was released,
	//   - or the cause of ctx.
	//
	// Renewals of one Lease that fall due close together go to the backend in one
	// call where it can do that. A renewal may then come up to an eighth of its
	// wait early, never late; its call is under no context of its holder's, and an
	// observer is told of each lease, with the duration of the whole.
	//
	// A failed renewal is retried, with a backoff ([WithRenewalBackoff]), as
	// long as the lease's window is open. An attempt without a reply for a
	// quarter of the TTL (at least 100 ms) counts as failed, though a late
	// success still extends the window. The window runs from the start of the
	// last successful Acquire, Checkpoint or renewal for one TTL, on the local
	// monotonic clock; [LeaseWindow] tells it.
	//
	// stopRenewal ends the renewal without waiting for a call in flight. It may
	// be called more than once, from any goroutine, and from an observer. It
	// does not cancel renewCtx, so ctx should be one of the run's own that is
	// cancelled after it: else a long-lived parent keeps renewCtx.
	StartRenewal(ctx context.Context, token Token, opts ...RenewalOption) (renewCtx context.Context, stopRenewal func())
}

// minTTL is the least TTL that New accepts, so that a TTL without its unit
// fails at once.
const minTTL = time.Millisecond

// Config configures a [Lease].
type Config struct {
	// TTL is how long a lease lives without renewal: the time after which
	// another holder takes over from one that crashed. Required, at least 1 ms.
	// Under about 3 s there is no room for one slow round trip and a retry.
	TTL time.Duration

	// HolderID names this process, for people and for the next holder. Required,
	// and unique for each process: valid UTF-8 without NUL, at most 1,024 bytes.
	// A lease is not re-entrant, so a restarted process with the same HolderID
	// waits for its own old lease to lapse.
	HolderID string

	Observer LeaseObserver // nil: none
}

// lease is the Lease of this package.
type lease struct {
	backend     backend.Backend
	generations int // that the backend tells apart
	claimer     *claim.Claimer
	agenda      *agenda.Agenda[*renewal]
	sender      *batch.Sender
	passing     func(error) bool
	notifier    backend.Notifier // nil: nobody tells
	tentative   func(context.Context) bool
	ttl         time.Duration
	holderID    string
	observer    LeaseObserver
}

// New returns a Lease for one holder on b. It does no I/O.
//
// Errors match [ErrConfigInvalid] and name every field that is wrong; a nil b, a
// typed nil pointer too, matches [ErrNilBackend].
func New(b backend.Backend, cfg Config) (Lease, error) {
	var problems []error
	if isNil(b) {
		problems = append(problems, fmt.Errorf("worklease: New: %w", ErrNilBackend))
	}
	if err := ident.Check("HolderID", cfg.HolderID); err != nil {
		problems = append(problems, fmt.Errorf("worklease: New: %w: %w", err, ErrConfigInvalid))
	}
	if cfg.TTL < minTTL {
		problems = append(problems, fmt.Errorf("worklease: New: TTL %v is below %v: %w", cfg.TTL, minTTL, ErrConfigInvalid))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}

	l := &lease{
		backend:   b,
		claimer:   claim.New(b, cfg.HolderID, cfg.TTL),
		sender:    batch.New(b, cfg.TTL),
		passing:   func(error) bool { return false },
		tentative: func(context.Context) bool { return false },
		ttl:       cfg.TTL,
		holderID:  cfg.HolderID,
		observer:  cmp.Or[LeaseObserver](cfg.Observer, NoopObserver{}),
	}
	l.agenda = agenda.New[*renewal](l.renewDue)
	if s, ok := b.(backend.Sequencer); ok {
		l.generations = s.Generations()
	}
	if c, ok := b.(backend.Classifier); ok {
		l.passing = c.Transient
	}
	l.notifier, _ = b.(backend.Notifier)
	if t, ok := b.(backend.Transactor); ok {
		l.tentative = t.Tentative
	}
	return l, nil
}

func isNil(b backend.Backend) bool {
	if b == nil {
		return true
	}
	v := reflect.ValueOf(b)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// defaultPoll is how often a waiting Acquire tries at most.
const defaultPoll = 2 * time.Second

type acquireOptions struct {
	wait bool
	poll time.Duration
}

// AcquireOption changes one call of [Lease.Acquire].
type AcquireOption func(*acquireOptions)

// WithWaitForLease makes Acquire wait until the lease is free or ctx ends.
func WithWaitForLease() AcquireOption {
	return func(o *acquireOptions) { o.wait = true }
}

// WithPollInterval sets how often a waiting Acquire tries at least: each wait is
// drawn evenly from half to the whole of d. Zero or less keeps the default of 2 s.
func WithPollInterval(d time.Duration) AcquireOption {
	return func(o *acquireOptions) {
		if d > 0 {
			o.poll = d
		}
	}
}

func newAcquireOptions(opts []AcquireOption) acquireOptions {
	o := acquireOptions{poll: defaultPoll}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}

// HasWaitForLease reports whether opts hold [WithWaitForLease].
func HasWaitForLease(opts []AcquireOption) bool {
	return newAcquireOptions(opts).wait
}

func (l *lease) Acquire(ctx context.Context, workID string, opts ...AcquireOption) (Token, error) {
	if err := ident.Check("work ID", workID); err != nil {
		return Token{}, fmt.Errorf("worklease: Acquire: %w", err)
	}
	o := newAcquireOptions(opts)
	if !o.wait {
		return l.attempt(ctx, workID)
	}
	// Before the attempt: what is freed after it is told.
	free, stop := l.Subscribe(workID)
	defer stop()
	var poll time.Time
	for hinted := false; ; {
		token, refused := l.attempt(ctx, workID)
		if !errors.Is(refused, ErrLeaseHeld) {
			return token, refused
		}
		if !hinted {
			poll = time.Now().Add(pacing.Poll(o.poll))
		}
		var err error
		if hinted, err = wake.Until(ctx, poll, refused, free); err != nil {
			return Token{}, l.wrap("Acquire", workID, l.holderID, err)
		}
	}
}

// attempt makes one attempt and reports it.
func (l *lease) attempt(ctx context.Context, workID string) (Token, error) {
	answer, err := l.claimer.Claim(ctx, workID)
	var token Token
	if err == nil {
		token = Token{record: answer.Record, window: answer.Window}
	}
	err = l.wrap("Acquire", workID, l.holderID, err)
	l.observer.OnAcquire(ctx, AcquireEvent{WorkID: workID, Token: token, Duration: answer.Took, Err: err})
	if err != nil || time.Since(answer.Start) <= l.ttl/10 {
		return token, err
	}

	// Bounded by the window: without one more renewal there is no token.
	bound, cancel := context.WithDeadline(ctx, token.window.Deadline())
	defer cancel()
	err = errors.Unwrap(l.Renew(bound, token))
	switch {
	case err == nil && token.window.Open():
		return token, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil:
		err = fmt.Errorf("answered after %v, then renewed too late", answer.Took)
	default:
		// No verdict may show: one on this lease says nothing about workID's.
		err = fmt.Errorf("answered after %v, then not renewed: %v", answer.Took, err)
	}
	l.claimer.Undo(ctx, answer.Record)
	return Token{}, l.wrap("Acquire", workID, l.holderID, err)
}

func (l *lease) ReadCheckpoint(ctx context.Context, token Token) (Checkpoint, error) {
	start := time.Now()
	cp, err := bounded.Call(ctx, func(ctx context.Context) (Checkpoint, error) {
		return l.backend.ReadCheckpoint(ctx, token.record)
	})
	took := time.Since(start)
	err = l.wrapFor("ReadCheckpoint", token, err)
	l.observer.OnReadCheckpoint(ctx, ReadCheckpointEvent{
		Token: token, PrevExit: cp.PrevExit, PrevHolderID: cp.PrevHolderID, Size: len(cp.State), Duration: took, Err: err,
	})
	return cp, err
}

func (l *lease) Checkpoint(ctx context.Context, token Token, state []byte) error {
	store := l.store
	if l.tentative(ctx) {
		store = l.storeTentatively
	}
	took, err := store(ctx, token, state)
	l.observer.OnCheckpoint(ctx, CheckpointEvent{Token: token, Size: len(state), Duration: took, Err: err})
	l.noteFenced(ctx, token, OperationCheckpoint, err)
	return err
}

func (l *lease) store(ctx context.Context, token Token, state []byte) (time.Duration, error) {
	if ctx.Done() != nil {
		// A call that ctx ends goes on without us, while the caller may already
		// reuse its slice.
		state = bytes.Clone(state)
	}
	start := time.Now()
	generation, sent := token.generation(), ctx.Err() == nil
	took, err := l.do(ctx, OperationCheckpoint, token, func(ctx context.Context) error {
		return l.backend.Checkpoint(withGeneration(ctx, generation), token.record, state, l.ttl)
	})
	token.extend(start, l.ttl, err)
	if sent && err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrLeaseExpired) && generation+1 < l.generations {
		token.supersede(generation)
	}
	return took, err
}

// storeTentatively is store for a checkpoint that its caller's transaction commits.
// The wait is the caller's. The window stays, since the write may be rolled back;
// and the generation, since what has failed inside a transaction cannot be committed.
func (l *lease) storeTentatively(ctx context.Context, token Token, state []byte) (time.Duration, error) {
	start := time.Now()
	err := l.backend.Checkpoint(withGeneration(ctx, token.generation()), token.record, state, l.ttl)
	return time.Since(start), l.wrapFor("Checkpoint", token, err)
}

func withGeneration(ctx context.Context, generation int) context.Context {
	if generation == 0 {
		return ctx
	}
	return backend.WithGeneration(ctx, generation)
}

func (l *lease) Renew(ctx context.Context, token Token) error {
	start := time.Now()
	took, err := l.do(ctx, OperationRenew, token, func(ctx context.Context) error {
		return l.backend.Renew(ctx, token.record, l.ttl)
	})
	token.extend(start, l.ttl, err)
	l.observer.OnRenew(ctx, RenewEvent{Token: token, Attempt: 1, Duration: took, Err: err})
	l.noteFenced(ctx, token, OperationRenew, err)
	return err
}

func (l *lease) Release(ctx context.Context, token Token, mode ExitMode) error {
	if !mode.Declarable() {
		return l.wrapFor("Release", token, fmt.Errorf("exit mode %v: %w", mode, ErrInvalidExitMode))
	}
	took, err := l.do(ctx, OperationRelease, token, func(ctx context.Context) error {
		return l.backend.Release(ctx, token.record, mode)
	})
	l.observer.OnRelease(ctx, ReleaseEvent{Token: token, Mode: mode, Duration: took, Err: err})
	l.noteFenced(ctx, token, OperationRelease, err)
	return err
}

func (l *lease) Forget(ctx context.Context, token Token) error {
	took, err := l.do(ctx, OperationForget, token, func(ctx context.Context) error {
		return l.backend.Forget(ctx, token.record)
	})
	l.observer.OnForget(ctx, ForgetEvent{Token: token, Duration: took, Err: err})
	l.noteFenced(ctx, token, OperationForget, err)
	return err
}

// The four methods below are no part of [Lease]: the lifecycle of worker, leader
// and pool asks for them, and does without where a wrapper hides them.

// Restore puts the lease back as Acquire found it, for a lease that its work
// function never saw.
func (l *lease) Restore(ctx context.Context, token Token) error {
	err := bounded.Do(ctx, func(ctx context.Context) error {
		return l.claimer.GiveBack(ctx, token.record)
	})
	return l.wrapFor("Restore", token, err)
}

// Window returns when the window of token's lease closes, for a bound on what
// comes before its renewal.
func (l *lease) Window(token Token) time.Time {
	if token.window == nil {
		return time.Time{}
	}
	return token.window.Deadline()
}

// Transient reports whether the backend expects err to pass.
func (l *lease) Transient(err error) bool { return l.passing(err) }

// Subscribe is that of [backend.Notifier], with a free that is nil where the backend
// is none.
func (l *lease) Subscribe(workID string) (free <-chan int, stop func()) {
	if l.notifier == nil {
		return nil, func() {}
	}
	return l.notifier.Subscribe(workID)
}

// do makes one bounded call and says how long it took.
func (l *lease) do(ctx context.Context, op Operation, token Token, call func(context.Context) error) (time.Duration, error) {
	start := time.Now()
	err := bounded.Do(ctx, call)
	return time.Since(start), l.wrapFor(op.String(), token, err)
}

func (l *lease) noteFenced(ctx context.Context, token Token, op Operation, err error) {
	if errors.Is(err, ErrFenced) {
		l.observer.OnFenced(ctx, FencedEvent{Token: token, Operation: op})
	}
}

func (l *lease) wrapFor(op string, token Token, err error) error {
	return l.wrap(op, token.WorkID(), token.HolderID(), err)
}

func (l *lease) wrap(op, workID, holderID string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{op, workID, holderID, err}
}
