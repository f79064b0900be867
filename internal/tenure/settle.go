package tenure

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/watch"
)

// run is a tenure whose body has been entered.
type run struct {
	*Terms
	ctx      context.Context // the caller's
	token    worklease.Token
	renewCtx context.Context
	watcher  *watch.Watch
}

// lost returns why the lease was lost, nil while it was not. The caller's context
// may have ended for the same kind of reason, one level up: that is no loss here.
func (r *run) lost() error {
	if r.watcher.Attached() {
		return r.watcher.Lost()
	}
	cause := context.Cause(r.renewCtx)
	if !isLoss(cause) || r.ctx.Err() != nil && errors.Is(context.Cause(r.ctx), cause) {
		return nil
	}
	return cause
}

func isLoss(err error) bool {
	return errors.Is(err, worklease.ErrFenced) || errors.Is(err, worklease.ErrLeaseWindowExhausted)
}

func lostAs(cause error) Outcome {
	if errors.Is(cause, worklease.ErrFenced) {
		return Fenced
	}
	return Exhausted
}

// settle turns what body returned and what became of the lease into the final
// writes and the outcome.
func (r *run) settle(state []byte, err, cause error) Result {
	result := func(o Outcome, err error) Result { return Result{Outcome: o, Token: r.token, Err: err} }
	outcome, mode := Failed, worklease.ExitAbandoned
	switch {
	case errors.Is(err, worklease.ErrFenced), errors.Is(cause, worklease.ErrFenced):
		return result(Fenced, worklease.ErrFenced)
	case cause != nil:
		return result(Exhausted, errors.Join(err, cause))
	case errors.Is(err, worklease.ErrRetire):
		outcome, mode, err = Retired, worklease.ExitRetired, nil
	case err == nil:
		outcome, mode = Finished, worklease.ExitFinished
	}

	cleanup, cancel := r.Cleanup(context.WithoutCancel(r.ctx))
	defer cancel()
	if state != nil && !r.Stateless {
		_, failure := r.persist(cleanup, func(ctx context.Context) error { return r.Lease.Checkpoint(ctx, r.token, state) })
		if errors.Is(failure, worklease.ErrFenced) {
			return result(Fenced, r.wrap("checkpoint", failure))
		}
		if failure != nil {
			outcome, mode = Failed, worklease.ExitAbandoned
			err = errors.Join(err, r.wrap("checkpoint", failure))
		}
	}
	failure := r.release(cleanup, mode)
	if errors.Is(failure, worklease.ErrFenced) {
		return result(Fenced, r.wrap("release", failure))
	}
	if failure != nil {
		return result(Failed, errors.Join(err, r.wrap("release", failure)))
	}
	return result(outcome, err)
}

// release declares the exit. A lease that is expired after an attempt of ours
// whose outcome is unknown, while its window is open, can only have been released
// by that attempt.
func (r *run) release(ctx context.Context, mode worklease.ExitMode) error {
	retried, err := r.persist(ctx, func(ctx context.Context) error { return r.Lease.Release(ctx, r.token, mode) })
	if retried && errors.Is(err, worklease.ErrLeaseExpired) && r.open() {
		return nil
	}
	return err
}

func (r *run) open() bool {
	if r.watcher.Attached() {
		return r.watcher.Open()
	}
	_, ok := worklease.LeaseWindow(r.renewCtx)
	return ok
}

// classifier is offered by the Lease of package worklease.
type classifier interface {
	Transient(err error) bool
}

// maxCalls bounds the calls of one final write that have not come back.
const maxCalls = 2

// persist makes a call and, while it fails for a reason that passes, makes it
// again with the renewal's backoff until ctx ends. A call without a reply for a
// quarter of that time is made again beside it, since one dead connection must
// not cost the exit that the server would record over another; whichever answers
// first counts, and the other is given up. It reports whether there was more than
// one.
func (t *Terms) persist(ctx context.Context, call func(context.Context) error) (retried bool, err error) {
	renewal := pacing.Renewal{Backoff: pacing.DefaultBackoff()}
	for _, opt := range t.RenewalOptions {
		if opt != nil {
			opt(&renewal)
		}
	}
	patience := DefaultCleanup / 4
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline) / 4
	}
	var (
		replies = make(chan error, maxCalls)
		calls   int          // begun
		sent    atomic.Int32 // of them, past the gate
		out     int          // not come back
		next    = time.NewTimer(0)
	)
	defer next.Stop()
	callCtx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	attempt := func() error {
		return t.pass(callCtx, true, func() error {
			// ctx may be many slots' and ends before the contexts derived from it.
			if err := ctx.Err(); err != nil {
				return err
			}
			next.Reset(patience) // from here: to wait for one's turn is no silence
			sent.Add(1)
			return call(callCtx)
		})
	}
	for {
		ended := ctx.Done()
		if out > 0 {
			ended = nil // the calls end with ctx, and have more to say
		}
		select {
		case <-ended:
			return sent.Load() > 1, cmp.Or(err, ctx.Err())
		case <-next.C:
			if out < maxCalls {
				calls++
				out++
				go func() { replies <- attempt() }()
			}
		case err = <-replies:
			out--
			if err == nil || !t.transient(err) {
				return sent.Load() > 1, err
			}
			next.Reset(renewal.Backoff.Wait(calls))
		}
	}
}

func (t *Terms) transient(err error) bool {
	var network net.Error
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &network):
		return true
	}
	c, ok := t.Lease.(classifier)
	return ok && c.Transient(err)
}
