package worklease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aetomala/worklease/internal/agenda"
	"github.com/aetomala/worklease/internal/batch"
	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/watch"
)

// RenewalOption changes one call of [Lease.StartRenewal].
type RenewalOption func(*pacing.Renewal)

// WithRenewalInterval sets how often the lease is renewed. Zero or less keeps the
// default of half the TTL, which is also the longest.
func WithRenewalInterval(d time.Duration) RenewalOption {
	return func(r *pacing.Renewal) {
		if d > 0 {
			r.Interval = d
		}
	}
}

// WithRenewalBackoff sets how a failed renewal is retried: after initial, then
// after twice as long each time up to maximum, each wait spread by up to the
// share jitter of itself. The defaults are 100 ms, 5 s and 0.20. Nothing is
// refused: a duration of zero or less keeps its default, maximum is at least
// initial, and jitter lies between 0 and 1.
func WithRenewalBackoff(initial, maximum time.Duration, jitter float64) RenewalOption {
	return func(r *pacing.Renewal) {
		r.Backoff = pacing.Backoff{Initial: initial, Max: maximum, Jitter: jitter}.Clamped()
	}
}

type renewalKey struct{}

// LeaseWindow returns until when the lease of a renewal context may be relied
// on: deadline moves on with every successful renewal, checkpoint or direct
// Renew, and never exceeds the true expiry while clocks run at the same rate.
// ctx is what [Lease.StartRenewal] returned, or derived from it.
//
// ok is false outside a renewal context, once it is done, and from the deadline
// on. After the renewal was stopped the deadline stands still.
func LeaseWindow(ctx context.Context) (deadline time.Time, ok bool) {
	r, _ := ctx.Value(renewalKey{}).(*renewal)
	if r == nil || r.ctx.Err() != nil {
		return time.Time{}, false
	}
	deadline = r.deadline()
	if !time.Now().Before(deadline) {
		return time.Time{}, false
	}
	return deadline, true
}

// minReplyBound is the least time that an attempt is given to answer.
const minReplyBound = 100 * time.Millisecond

// maxCalls bounds the calls of one renewal that have not come back.
const maxCalls = 2

// few is a batch that is not made smaller for having failed.
const few = 8

// slack is the share of a wait by which a renewal may come earlier, in the company
// of others that are due.
const slack = 8

// renewal keeps one lease renewed. It owns no goroutine: it moves on when its entry
// on the agenda falls due, when a call answers, and when its observer has been
// told, one of them at a time.
type renewal struct {
	lease    *lease
	token    Token
	watch    *watch.Watch // nil outside a run
	interval time.Duration
	backoff  pacing.Backoff

	ctx    context.Context // the renewal context
	cancel context.CancelCauseFunc
	base   context.Context // of the calls: outside a run it ends with ctx

	mu       sync.Mutex
	entry    agenda.Entry[*renewal] // the next attempt, or the end of waiting for this one's reply
	current  *renewCall             // the call whose answer counts as the attempt's
	out      []*renewCall           // calls that have not come back
	overdue  bool                   // an attempt is due and as many calls are out as may be
	telling  bool                   // the observer is being told, and the rest waits
	late     []*renewCall           // answers that came meanwhile
	failures int                    // in a row
	most     int                    // how many the next attempt may go together with, itself counted; 0: any number
	lastErr  error                  // of the last attempt; nil when it succeeded
	closing  *time.Timer            // closes the window
	ended    bool
	stopped  time.Time   // the deadline at the stop; zero before
	detach   func() bool // from ctx
}

// renewCall is one call under way, or its answer.
type renewCall struct {
	batch.Call
	start time.Time
	took  time.Duration
	err   error
	busy  bool

	behind bool // somebody has locked the row
}

func (l *lease) StartRenewal(ctx context.Context, token Token, opts ...RenewalOption) (context.Context, func()) {
	cfg := pacing.Renewal{Backoff: pacing.DefaultBackoff()}
	for _, opt := range opts {
		if opt != nil {
			opt(&cfg)
		}
	}
	if cfg.Interval <= 0 || cfg.Interval > l.ttl/2 {
		cfg.Interval = l.ttl / 2
	}
	r := &renewal{lease: l, token: token, interval: cfg.Interval, backoff: cfg.Backoff}
	r.entry.Item = r
	renewCtx, cancel := context.WithCancelCause(ctx)
	r.ctx, r.cancel = context.WithValue(renewCtx, renewalKey{}, r), cancel
	if token.window == nil { // the zero Token
		cancel(ErrFenced)
		return r.ctx, func() {}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.base = r.ctx
	if r.watch = watch.Attach(ctx, token, token.window.Open); r.watch != nil {
		r.base = context.WithoutCancel(r.ctx)
	} else {
		r.detach = context.AfterFunc(r.ctx, r.finish)
	}
	r.closing = time.AfterFunc(time.Until(token.window.Deadline()), r.close)
	r.next(token.window.Due(r.interval))
	return r.ctx, r.stop
}

// renewDue begins what has fallen due on the agenda. Where the backend renews
// many leases in one step, those take along what will be due soon.
func (l *lease) renewDue() {
	now := time.Now()
	calls := begin(nil, l.agenda.Take(now), now)
	if len(calls) > 0 && l.sender.Batches() {
		calls = begin(calls, l.agenda.TakeAlong(now), now)
	}
	l.sender.Send(calls)
}

func begin(calls []*batch.Call, due []*renewal, now time.Time) []*batch.Call {
	for _, r := range due {
		if c := r.due(now); c != nil {
			calls = append(calls, c)
		}
	}
	return calls
}

// next puts what r does next on the agenda, for at. r.mu is held, as it is for all
// that follow up to due.
func (r *renewal) next(at time.Time) {
	r.lease.agenda.Set(&r.entry, at, time.Until(at)/slack)
}

// attempt begins an attempt at now and returns its call, for the caller to send.
func (r *renewal) attempt(now time.Time) *batch.Call {
	c := &renewCall{start: now}
	c.Call = batch.Call{
		Record: r.token.record, Ctx: r.base, Most: r.most,
		Answer: func(err error, busy bool) { r.answer(c, err, busy) },
	}
	r.current, r.out = c, append(r.out, c)
	r.lease.agenda.Set(&r.entry, now.Add(max(r.lease.ttl/4, minReplyBound)), 0)
	return &c.Call
}

// failed ends the current attempt. After an error that the backend expects to pass it
// comes again in a smaller company, which takes less time; any other might be the
// company's fault, or fail all of it.
func (r *renewal) failed(took time.Duration, err error, passing bool) {
	if together := r.current.Together(); !passing {
		r.most = 1
	} else if together > 1 {
		r.most = max(together/4, few)
	}
	r.current, r.lastErr = nil, err
	r.failures++
	failures := r.failures
	r.tell(failures, took, err, func() {
		now := time.Now()
		closes := r.token.window.Deadline()
		r.next(now.Add(min(r.backoff.Wait(failures), closes.Sub(now))))
	})
}

// settle takes in an answer.
func (r *renewal) settle(c *renewCall) {
	switch {
	case errors.Is(c.err, ErrFenced) || errors.Is(c.err, ErrLeaseExpired):
		r.tell(r.failures+1, c.took, c.err, func() { r.lose(verdict(c.err)) })
	case c == r.current && c.busy && r.token.window.Open():
		r.most = 1
		call := r.attempt(time.Now())
		r.current.behind = true
		r.lease.sender.Send([]*batch.Call{call})
	case c == r.current && c.err != nil:
		r.failed(c.took, c.err, r.lease.passing(c.err))
	case c == r.current:
		r.current, r.most = nil, 0
		r.tell(r.failures+1, c.took, nil, func() {
			r.failures = 0
			r.next(c.start.Add(r.interval))
		})
	case c.err == nil:
		r.failures = 0 // late, and already reported as failed
	}
	if r.overdue && r.current == nil && !r.telling && !r.ended && r.token.window.Open() {
		r.overdue = false
		r.lease.sender.Send([]*batch.Call{r.attempt(time.Now())})
	}
}

// tell tells the observer of an attempt, and then goes on. Nothing else happens to
// r meanwhile but its end.
func (r *renewal) tell(attempt int, took time.Duration, err error, then func()) {
	if _, none := r.lease.observer.(NoopObserver); none {
		then()
		return
	}
	r.lease.agenda.Remove(&r.entry)
	r.telling = true
	go func() {
		if r.over() {
			return
		}
		err := r.lease.wrapFor("Renew", r.token, err)
		r.lease.observer.OnRenew(r.ctx, RenewEvent{Token: r.token, Attempt: attempt, Duration: took, Err: err})
		r.lease.noteFenced(r.ctx, r.token, OperationRenew, err)

		r.mu.Lock()
		defer r.mu.Unlock()
		r.telling = false
		if !r.ended {
			then()
		}
		for len(r.late) > 0 && !r.telling && !r.ended {
			c := r.late[0]
			r.late = r.late[1:]
			r.settle(c)
		}
	}()
}

// lose cancels the renewal context because the lease is lost.
func (r *renewal) lose(cause error) {
	if r.ended {
		return
	}
	r.end()
	if r.watch != nil {
		r.watch.Lose(cause)
	}
	r.cancel(cause)
}

// end ends the renewal, whose calls need no answer any more.
func (r *renewal) end() {
	if r.ended {
		return
	}
	r.ended = true
	r.lease.agenda.Remove(&r.entry)
	r.closing.Stop()
	if r.detach != nil {
		r.detach()
	}
	for _, c := range r.out {
		c.Leave()
	}
}

// due does what r's entry was on the agenda for. It returns a call to be sent, or
// nil.
func (r *renewal) due(now time.Time) *batch.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended || !r.token.window.Open():
		// The window's own timer ends it; nothing is sent any more.
	case r.telling || r.lease.agenda.Holds(&r.entry):
		// An answer came since the entry was taken, and changed the plan.
	case r.current != nil:
		if r.current.behind {
			// Else it kept its connection for as long as the row is locked.
			r.current.Leave()
			r.most = 0
		}
		took := time.Since(r.current.start)
		r.failed(took, fmt.Errorf("no reply within %v", took), true)
	case len(r.out) < maxCalls:
		return r.attempt(now)
	default:
		r.overdue = true
	}
	return nil
}

// answer takes the answer of a call. It moves the window by itself, so that no
// observer can hold that up.
func (r *renewal) answer(c *renewCall, err error, busy bool) {
	if err == nil {
		r.token.window.Extend(c.start, r.lease.ttl)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.took, c.err, c.busy = time.Since(c.start), err, busy
	if r.ended {
		return
	}
	if err == nil {
		r.lastErr = nil
	}
	r.out = slices.DeleteFunc(r.out, func(o *renewCall) bool { return o == c })
	if r.telling {
		r.late = append(r.late, c)
		return
	}
	r.settle(c)
}

// verdict returns the cause for a lease that the backend called lost.
func verdict(err error) error {
	if errors.Is(err, ErrFenced) {
		return ErrFenced
	}
	return fmt.Errorf("%w: %w", ErrLeaseWindowExhausted, err)
}

// close ends the renewal when the window closes. It runs on the window's own
// timer, so that neither a slow observer nor a call that hangs can hold it up.
func (r *renewal) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	if left := time.Until(r.token.window.Deadline()); left > 0 {
		r.closing.Reset(left)
		return
	}
	cause := ErrLeaseWindowExhausted
	if r.lastErr != nil {
		cause = fmt.Errorf("%w: last renewal: %w", cause, r.lastErr)
	}
	r.lose(cause)
}

// stop ends the renewal because its caller wants no more of it.
func (r *renewal) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.IsZero() {
		r.stopped = r.token.window.Deadline()
	}
	r.end()
}

// finish ends the renewal because its context has ended.
func (r *renewal) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end()
}

// over reports whether the renewal has ended.
func (r *renewal) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// deadline returns the window's, or where it stood at the stop.
func (r *renewal) deadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped.IsZero() {
		return r.stopped
	}
	return r.token.window.Deadline()
}
