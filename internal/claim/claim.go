// Package claim makes attempts at leases that their caller can walk away from
// without leaving a lease behind.
package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/bounded"
	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/window"
)

// Claimer makes attempts for one holder on one backend. It is safe for
// concurrent use.
//
// An attempt's call runs on a goroutine and a context of its own, cancelled
// only after the TTL: a cancelled INSERT usually commits all the same, and a
// call that is left alone says in the end which lease to give back. One attempt
// for each work ID is out at a time; the next waits for its turn.
type Claimer struct {
	backend backend.Backend
	restore func(context.Context, backend.LeaseRecord) error
	holder  string
	ttl     time.Duration

	mu  sync.Mutex
	out map[string]*attempt
}

// attempt is one call of Acquire, from before it is made until its lease is
// handed out or given back.
type attempt struct {
	start   time.Time
	settled chan struct{}
}

// New returns a Claimer.
func New(b backend.Backend, holder string, ttl time.Duration) *Claimer {
	c := &Claimer{backend: b, holder: holder, ttl: ttl, out: map[string]*attempt{}}
	c.restore = c.approximate
	if r, ok := b.(backend.Restorer); ok {
		c.restore = r.Restore
	}
	return c
}

// Answer is what an attempt came to.
type Answer struct {
	Record backend.LeaseRecord
	Window *window.Window // open

	// Start is when the backend was called, and Took how long that call was
	// waited for, without the wait for a turn. Zero when it was not called.
	Start time.Time
	Took  time.Duration
}

// Claim makes one attempt at the lease on workID.
//
// When ctx ends it returns ctx.Err() at once, and when no answer came while the
// window was open an error that matches no sentinel. A lease that the call took
// or turns out to have taken is then given back as it was found, beside the
// caller and within the TTL.
func (c *Claimer) Claim(ctx context.Context, workID string) (Answer, error) {
	a, err := c.turn(ctx, workID)
	if err != nil {
		return Answer{}, err
	}
	r, err := c.call(ctx, workID, a)
	return Answer{Record: r.record, Window: r.window, Start: a.start, Took: time.Since(a.start)}, err
}

type reply struct {
	record backend.LeaseRecord
	window *window.Window
	err    error
	late   bool // it took a lease that is still to be given back
}

func (c *Claimer) call(ctx context.Context, workID string, a *attempt) (reply, error) {
	// Bounded by the TTL: later its lease would have lapsed on arrival, and a
	// connection must not be lost to a row that stays locked.
	callCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ttl)
	replies, left := make(chan reply), make(chan struct{})
	go func() {
		bounded.Grow()
		// Settled only once the lease is handed out or given back.
		defer c.settle(workID, a)
		defer cancel()
		record, err := c.backend.Acquire(callCtx, workID, c.holder, c.ttl)
		r := reply{err: err}
		switch {
		case err == nil:
			w := window.Open(a.start, c.ttl, record.ExpiresAt)
			if w.Open() {
				r.record, r.window = record, w
			} else {
				r.err, r.late = c.late(), true
			}
		case callCtx.Err() != nil && errors.Is(err, callCtx.Err()):
			// Our bound and not the caller's, who must not take it for his.
			r.err = fmt.Errorf("%w: %v", c.late(), err)
		}
		select {
		case replies <- r:
			if !r.late {
				return
			}
		case <-left:
		}
		if err == nil {
			c.undo(callCtx, record)
		}
	}()

	select {
	case r := <-replies:
		if !r.late {
			<-a.settled // the work ID's turn is free when its caller knows
		}
		return r, r.err
	case <-ctx.Done():
		close(left)
		return reply{}, ctx.Err()
	case <-callCtx.Done():
		close(left)
		return reply{}, c.late()
	}
}

func (c *Claimer) late() error {
	return fmt.Errorf("no answer within the TTL of %v", c.ttl)
}

// turn waits until no other attempt at workID is out, none for longer than the
// TTL from its start: its lease has lapsed then.
func (c *Claimer) turn(ctx context.Context, workID string) (*attempt, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		before := c.out[workID]
		if before == nil || time.Since(before.start) >= c.ttl {
			a := &attempt{start: time.Now(), settled: make(chan struct{})}
			c.out[workID] = a
			c.mu.Unlock()
			return a, nil
		}
		c.mu.Unlock()

		lapse := time.NewTimer(c.ttl - time.Since(before.start))
		select {
		case <-before.settled:
		case <-lapse.C:
		case <-ctx.Done():
		}
		lapse.Stop()
	}
}

func (c *Claimer) settle(workID string, a *attempt) {
	c.mu.Lock()
	if c.out[workID] == a {
		delete(c.out, workID)
	}
	c.mu.Unlock()
	close(a.settled)
}

// Undo gives a lease back that its caller cannot use, beside the caller and
// within the TTL. The next attempt at it waits for that.
func (c *Claimer) Undo(ctx context.Context, record backend.LeaseRecord) {
	a := &attempt{start: time.Now(), settled: make(chan struct{})}
	c.mu.Lock()
	if c.out[record.WorkID] == nil {
		c.out[record.WorkID] = a
	}
	c.mu.Unlock()
	go func() {
		defer c.settle(record.WorkID, a)
		c.undo(ctx, record)
	}()
}

// undo gives a lease back that nobody will use. It tries until the lease would
// have lapsed by itself: a successor should read how the work was really left.
func (c *Claimer) undo(ctx context.Context, record backend.LeaseRecord) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ttl)
	defer cancel()
	backoff := pacing.DefaultBackoff()
	for n := 1; ; n++ {
		err := c.GiveBack(ctx, record)
		if err == nil || errors.Is(err, backend.ErrFenced) || errors.Is(err, backend.ErrLeaseExpired) {
			return
		}
		if pacing.Sleep(ctx, backoff.Wait(n)) != nil {
			return
		}
	}
}

// GiveBack puts the lease of record back as it was found, exactly where the
// backend is a [backend.Restorer], else as nearly as it can. One attempt.
func (c *Claimer) GiveBack(ctx context.Context, record backend.LeaseRecord) error {
	return c.restore(ctx, record)
}

func (c *Claimer) approximate(ctx context.Context, record backend.LeaseRecord) error {
	prior, err := c.backend.ReadCheckpoint(ctx, record)
	if err != nil {
		return err
	}
	return Approximate(prior.PrevExit,
		func() error { return c.backend.Forget(ctx, record) },
		func() error { return c.backend.Release(ctx, record, prior.PrevExit) })
}

// Approximate gives a lease that was found after prev back without a
// [backend.Restorer]: it removes the row where nobody held it before, leaves with
// the same exit where that can be declared, and else lets the lease lapse, which
// is how it was left.
func Approximate(prev backend.ExitMode, forget, release func() error) error {
	switch {
	case prev == backend.ExitNone:
		return forget()
	case prev.Declarable():
		return release()
	default:
		return nil
	}
}
