//go:build linux

package worker

import (
	"context"
	"errors"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/faults/history"
)

// logged is a Lease that writes down what its user sees of it.
type logged struct {
	worklease.Lease
	log *history.Log
}

// note writes down one call around do, which fills in what came back.
func (l *logged) note(e history.Event, do func(*history.Event) error) error {
	e.Seq = l.log.Next()
	e.At, e.Kind = history.Now(), history.Call
	l.log.Write(e)
	err := do(&e)
	e.At, e.Kind, e.Result = history.Now(), history.Return, result(err)
	if err != nil {
		e.Error = err.Error()
	}
	l.log.Write(e)
	return err
}

func result(err error) history.Result {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, worklease.ErrFenced):
		return history.Fenced
	case errors.Is(err, worklease.ErrLeaseExpired):
		return history.Expired
	case errors.Is(err, worklease.ErrLeaseHeld):
		return history.Held
	case errors.Is(err, errUndone):
		return history.Undone
	default:
		return history.Unknown
	}
}

func under(token worklease.Token, op history.Op) history.Event {
	return history.Event{Op: op, ID: token.WorkID(), Token: token.FencingToken()}
}

func (l *logged) Acquire(ctx context.Context, workID string, opts ...worklease.AcquireOption) (token worklease.Token, err error) {
	err = l.note(history.Event{Op: history.Acquire, ID: workID}, func(e *history.Event) error {
		token, err = l.Lease.Acquire(ctx, workID, opts...)
		e.Token = token.FencingToken()
		return err
	})
	return token, err
}

func (l *logged) ReadCheckpoint(ctx context.Context, token worklease.Token) (cp worklease.Checkpoint, err error) {
	err = l.note(under(token, history.Read), func(e *history.Event) error {
		if cp, err = l.Lease.ReadCheckpoint(ctx, token); err == nil {
			e.State, e.Exit, e.Prev = string(cp.State), cp.PrevExit.String(), cp.PrevHolderID
		}
		return err
	})
	return cp, err
}

func (l *logged) Checkpoint(ctx context.Context, token worklease.Token, state []byte) error {
	e := under(token, history.Checkpoint)
	e.State = string(state)
	return l.note(e, func(*history.Event) error { return l.Lease.Checkpoint(ctx, token, state) })
}

func (l *logged) Renew(ctx context.Context, token worklease.Token) error {
	return l.note(under(token, history.Renew), func(*history.Event) error { return l.Lease.Renew(ctx, token) })
}

func (l *logged) Release(ctx context.Context, token worklease.Token, mode worklease.ExitMode) error {
	e := under(token, history.Release)
	e.Exit = mode.String()
	return l.note(e, func(*history.Event) error { return l.Lease.Release(ctx, token, mode) })
}

func (l *logged) Forget(ctx context.Context, token worklease.Token) error {
	return l.note(under(token, history.Forget), func(*history.Event) error { return l.Lease.Forget(ctx, token) })
}

// believe writes down until when the holder may act on its lease.
func (l *logged) believe(ctx context.Context, token worklease.Token) {
	// Read before the deadline: what passes between the two shortens the belief.
	now := history.Now()
	deadline, ok := worklease.LeaseWindow(ctx)
	if !ok {
		return
	}
	e := under(token, "")
	e.Kind, e.At, e.Until = history.Window, now, now+time.Until(deadline).Nanoseconds()
	l.log.Write(e)
}

// The Lease of package worklease can do more than its interface says, and the
// lifecycle of worker asks for it. Restore is an operation like the others.

func (l *logged) Restore(ctx context.Context, token worklease.Token) error {
	return l.note(under(token, history.Restore), func(*history.Event) error {
		return l.Lease.(interface {
			Restore(ctx context.Context, token worklease.Token) error
		}).Restore(ctx, token)
	})
}

func (l *logged) Window(token worklease.Token) time.Time {
	return l.Lease.(interface {
		Window(token worklease.Token) time.Time
	}).Window(token)
}

func (l *logged) Transient(err error) bool {
	return l.Lease.(interface{ Transient(err error) bool }).Transient(err)
}
