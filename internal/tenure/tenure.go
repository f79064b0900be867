// Package tenure is the life of one held lease: acquire, read, renew, run the
// body, settle. Packages worker, leader and pool stand on it and say only what to
// run and what to do next.
package tenure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/claim"
	"github.com/aetomala/worklease/internal/gate"
	"github.com/aetomala/worklease/internal/wake"
	"github.com/aetomala/worklease/internal/watch"
)

// DefaultCleanup bounds the final checkpoint and release.
const DefaultCleanup = 5 * time.Second

// Terms say how leases are held. They are safe for concurrent use.
type Terms struct {
	Package        string // stands in front of errors
	Lease          worklease.Lease
	AcquireOptions []worklease.AcquireOption
	RenewalOptions []worklease.RenewalOption

	// Stateless leaves checkpoints alone: none is read, none is written.
	Stateless bool

	// Idle draws how long a run waits whose lease is held, before it returns that.
	// Meanwhile it tries again when the lease lapses or may have been freed. nil:
	// not at all.
	Idle func() time.Duration

	// Gate bounds the runs that call the backend at the same moment, not counting
	// renewals; nil bounds nothing. Final writes go before acquisitions.
	Gate *gate.Gate

	// Cleanup returns the context of the final writes, derived from one without
	// cancellation. It is called when the body has returned.
	Cleanup func(context.Context) (context.Context, context.CancelFunc)
}

// CleanupWithin returns a Cleanup bounded by d, zero and less meaning
// [DefaultCleanup].
func CleanupWithin(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	if d <= 0 {
		d = DefaultCleanup
	}
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, d)
	}
}

// Body is what runs under the lease. Its context ends with the caller's or with
// the lease.
type Body func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error)

// Outcome says how a tenure ended.
type Outcome uint8

// The outcomes.
const (
	NotAcquired Outcome = iota // Err says why
	NotEntered                 // the body was not called
	Fenced                     // lost to a successor; nothing recorded
	Exhausted                  // lost to the clock; nothing recorded
	Finished                   // and recorded so
	Retired                    // and recorded so
	Failed                     // the body or a final write failed
)

// Result is what a tenure came to.
type Result struct {
	Outcome Outcome
	Token   worklease.Token // zero when NotAcquired
	Err     error           // what Run and Elect return
}

// Run holds the lease on workID for one call of body. It returns when body has
// returned and the final writes have, or their bound has passed. A panic or
// runtime.Goexit of body goes on up with the renewal stopped and nothing written.
func (t *Terms) Run(ctx context.Context, workID string, body Body) Result {
	token, prior, failed := t.open(ctx, workID)
	if failed != nil {
		return *failed
	}

	// A context of the run's own, so that a long-lived parent keeps nothing of it.
	runCtx, endRun := context.WithCancel(ctx)
	defer endRun()
	watcher := watch.New(token)
	renewCtx, stopRenewal := t.Lease.StartRenewal(watch.With(runCtx, watcher), token, t.RenewalOptions...)
	defer stopRenewal()

	r := run{Terms: t, ctx: ctx, token: token, renewCtx: renewCtx, watcher: watcher}
	if renewCtx.Err() != nil {
		stopRenewal()
		if cause := r.lost(); cause != nil {
			return Result{Outcome: lostAs(cause), Token: token, Err: cause}
		}
		return Result{Outcome: NotEntered, Token: token, Err: t.turnBack(ctx, token, renewCtx.Err())}
	}
	state, err := body(renewCtx, token, prior)
	// Read before the stop, so that the stop cannot be the cause.
	cause := r.lost()
	stopRenewal()
	return r.settle(state, err, cause)
}

// open acquires the lease and reads what was left, or says how that failed. Both
// in one visit of the gate: who has a lease must not queue behind those who want
// one.
func (t *Terms) open(ctx context.Context, workID string) (token worklease.Token, prior worklease.Checkpoint, failed *Result) {
	acquired := false
	err := t.patiently(ctx, workID, func() (err error) {
		token, err = t.Lease.Acquire(ctx, workID, t.AcquireOptions...)
		if acquired = err == nil; acquired && !t.Stateless {
			prior, err = t.read(ctx, token)
		}
		return err
	})
	switch {
	case !acquired:
		return token, prior, &Result{Outcome: NotAcquired, Err: t.wrap("acquire", err)}
	case ctx.Err() != nil:
		return token, prior, &Result{Outcome: NotEntered, Token: token, Err: t.turnBack(ctx, token, ctx.Err())}
	case err != nil:
		return token, prior, &Result{Outcome: NotEntered, Token: token, Err: t.wrap("read checkpoint", err)}
	}
	return token, prior, nil
}

// notifier is offered by the Lease of package worklease.
type notifier interface {
	Subscribe(workID string) (free <-chan int, stop func())
}

// patiently passes the gate for an attempt and, while the lease is held and Idle not
// over, again on each hint that it may be free.
func (t *Terms) patiently(ctx context.Context, workID string, attempt func() error) error {
	if t.Idle == nil {
		return t.pass(ctx, false, attempt)
	}
	var free <-chan int
	// An Acquire that waits has hints of its own.
	if n, ok := t.Lease.(notifier); ok && !worklease.HasWaitForLease(t.AcquireOptions) {
		told, stop := n.Subscribe(workID)
		defer stop()
		free = told
	}
	var over time.Time
	for {
		refused := t.pass(ctx, false, attempt)
		if !errors.Is(refused, worklease.ErrLeaseHeld) {
			return refused
		}
		if over.IsZero() {
			over = time.Now().Add(t.Idle())
		}
		if hinted, err := wake.Until(ctx, over, refused, free); err != nil || !hinted {
			return refused
		}
	}
}

// pass makes calls that have passed the gate.
func (t *Terms) pass(ctx context.Context, urgent bool, calls func() error) error {
	if t.Gate != nil {
		if err := t.Gate.Enter(ctx, urgent); err != nil {
			return err
		}
		defer t.Gate.Leave()
	}
	return calls()
}

// windower is offered by the Lease of package worklease.
type windower interface {
	Window(token worklease.Token) time.Time
}

// read reads the checkpoint while the lease is held: later its answer could not
// be used, and a driver that hangs must not hold the run up for longer.
func (t *Terms) read(ctx context.Context, token worklease.Token) (worklease.Checkpoint, error) {
	w, ok := t.Lease.(windower)
	if !ok {
		return t.Lease.ReadCheckpoint(ctx, token)
	}
	readCtx, cancel := context.WithDeadline(ctx, w.Window(token))
	defer cancel()
	prior, err := t.Lease.ReadCheckpoint(readCtx, token)
	if err != nil && readCtx.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", worklease.ErrLeaseWindowExhausted, err)
	}
	return prior, err
}

// restorer is offered by the Lease of package worklease.
type restorer interface {
	Restore(ctx context.Context, token worklease.Token) error
}

// turnBack gives a lease back, as it was found, that came too late for its
// caller, and returns why.
func (t *Terms) turnBack(ctx context.Context, token worklease.Token, why error) error {
	cleanup, cancel := t.Cleanup(context.WithoutCancel(ctx))
	defer cancel()
	_, err := t.persist(cleanup, func(ctx context.Context) error {
		if r, ok := t.Lease.(restorer); ok {
			return r.Restore(ctx, token)
		}
		prior, err := t.Lease.ReadCheckpoint(ctx, token)
		if err != nil {
			return err
		}
		return claim.Approximate(prior.PrevExit,
			func() error { return t.Lease.Forget(ctx, token) },
			func() error { return t.Lease.Release(ctx, token, prior.PrevExit) })
	})
	if errors.Is(err, worklease.ErrFenced) || errors.Is(err, worklease.ErrLeaseExpired) {
		err = nil // It is back already, perhaps by an attempt whose reply was lost.
	}
	return errors.Join(t.wrap("not started", why), t.wrap("give back", err))
}

func (t *Terms) wrap(step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", t.Package, step, err)
}
