// Package memory keeps leases in the memory of one process: for tests, for
// examples, and for programs that coordinate their own goroutines.
//
// # Guarantees
//
// It passes the same conformance suite as the PostgreSQL backend. Its fencing
// tokens come from one counter for each Backend, which only a successful
// Acquire or ForceRelease advances.
//
// # Not guaranteed
//
// Nothing survives the process, and nothing is shared between processes.
package memory

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/wake"
)

// Clock tells the time by which leases lapse. It is asked under the backend's
// lock, so it must not call back.
type Clock interface {
	Now() time.Time
}

// Option changes what New makes.
type Option func(*Backend)

// WithClock makes leases lapse by c instead of the system's clock.
func WithClock(c Clock) Option {
	return func(b *Backend) { b.clock = c }
}

// Backend is a [backend.Backend] in memory. It also is a [backend.Restorer], a
// [backend.BatchRenewer], a [backend.Sequencer], a [backend.Notifier], a
// [backend.Lister] and a [backend.ForceReleaser]. Its methods do not block.
type Backend struct {
	clock   Clock
	waiters wake.Board

	mu    sync.Mutex
	token uint64
	rows  map[string]*row
}

// row is one lease. Its state is never changed in place, only replaced, so that
// it can be copied out without the lock.
type row struct {
	holder     string
	token      uint64
	expires    time.Time
	acquired   time.Time
	updated    time.Time
	state      []byte
	generation int
	exit       backend.ExitMode // ExitNone until one is declared
	prevExit   backend.ExitMode
	prevHolder string
}

// New returns an empty backend.
func New(opts ...Option) *Backend {
	b := &Backend{clock: systemClock{}, rows: map[string]*row{}}
	for _, opt := range opts {
		opt(b)
	}
	return b
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	if err := ctx.Err(); err != nil {
		return backend.LeaseRecord{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	now := b.clock.Now()
	next := row{holder: holderID, acquired: now}
	if r := b.rows[workID]; r != nil {
		if r.live(now) {
			return backend.LeaseRecord{}, &backend.HeldError{HolderID: r.holder, Remaining: r.expires.Sub(now)}
		}
		next.state, next.prevExit, next.prevHolder = r.state, r.left(), r.holder
	}
	b.token++
	next.token = b.token
	next.touch(now, ttl)
	b.rows[workID] = &next
	return backend.LeaseRecord{WorkID: workID, HolderID: holderID, FencingToken: next.token, ExpiresAt: next.expires}, nil
}

// Checkpoint implements [backend.Backend].
func (b *Backend) Checkpoint(ctx context.Context, record backend.LeaseRecord, state []byte, ttl time.Duration) error {
	// Copied before the lock: a large state must not hold up other leases.
	stored := clone(state)
	generation := backend.Generation(ctx)
	return b.with(ctx, record, func(r *row, now time.Time) error {
		if r.exit != backend.ExitNone {
			return backend.ErrLeaseExpired
		}
		if generation < r.generation {
			return errOvertaken
		}
		r.state, r.generation = stored, generation
		r.touch(now, ttl)
		return nil
	})
}

var errOvertaken = errors.New("a checkpoint of a later generation is stored")

// Generations implements [backend.Sequencer].
func (b *Backend) Generations() int { return math.MaxInt }

// Renew implements [backend.Backend].
func (b *Backend) Renew(ctx context.Context, record backend.LeaseRecord, ttl time.Duration) error {
	return b.with(ctx, record, func(r *row, now time.Time) error { return r.renew(now, ttl) })
}

// RenewBatch implements [backend.BatchRenewer].
func (b *Backend) RenewBatch(ctx context.Context, records []backend.LeaseRecord, ttl time.Duration) ([]error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	now := b.clock.Now()
	verdicts := make([]error, len(records))
	for i, record := range records {
		r, err := b.of(record)
		if err == nil {
			err = r.renew(now, ttl)
		}
		verdicts[i] = err
	}
	return verdicts, nil
}

// Release implements [backend.Backend].
func (b *Backend) Release(ctx context.Context, record backend.LeaseRecord, mode backend.ExitMode) error {
	if !mode.Declarable() {
		return backend.ErrInvalidExitMode
	}
	return b.with(ctx, record, func(r *row, now time.Time) error {
		if !r.live(now) {
			return backend.ErrLeaseExpired
		}
		r.exit = mode
		r.free(now)
		b.waiters.Wake(record.WorkID)
		return nil
	})
}

// ReadCheckpoint implements [backend.Backend].
func (b *Backend) ReadCheckpoint(ctx context.Context, record backend.LeaseRecord) (backend.Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return backend.Checkpoint{}, err
	}
	b.mu.Lock()
	r := b.rows[record.WorkID]
	if r == nil || r.token != record.FencingToken {
		b.mu.Unlock()
		return backend.Checkpoint{}, backend.ErrFenced
	}
	cp := backend.Checkpoint{State: r.state, PrevExit: r.prevExit, PrevHolderID: r.prevHolder}
	b.mu.Unlock()

	cp.State = clone(cp.State)
	return cp, nil
}

// Forget implements [backend.Backend].
func (b *Backend) Forget(ctx context.Context, record backend.LeaseRecord) error {
	return b.with(ctx, record, func(*row, time.Time) error {
		delete(b.rows, record.WorkID)
		b.waiters.Wake(record.WorkID)
		return nil
	})
}

// Restore implements [backend.Restorer].
func (b *Backend) Restore(ctx context.Context, record backend.LeaseRecord) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	r := b.rows[record.WorkID]
	switch {
	case r == nil || r.token != record.FencingToken:
		return backend.ErrFenced
	case r.prevExit == backend.ExitNone:
		delete(b.rows, record.WorkID)
	default:
		r.holder, r.exit = r.prevHolder, backend.ExitNone
		if r.prevExit.Declarable() {
			r.exit = r.prevExit
		}
		r.free(b.clock.Now())
	}
	b.waiters.Wake(record.WorkID)
	return nil
}

// Subscribe implements [backend.Notifier].
func (b *Backend) Subscribe(workID string) (free <-chan int, stop func()) {
	return b.waiters.Subscribe(workID)
}

// Sweep implements [backend.Backend].
func (b *Backend) Sweep(ctx context.Context, opts backend.SweepOptions) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	now := b.clock.Now()
	var n int64
	for id, r := range b.rows {
		doomed := r.exit == backend.ExitRetired || opts.IncludeExpired && r.exit == backend.ExitNone
		if doomed && !r.live(now) && now.Sub(r.updated) > opts.Retention {
			delete(b.rows, id)
			n++
		}
	}
	return n, nil
}

// with calls do on the row that record still owns.
func (b *Backend) with(ctx context.Context, record backend.LeaseRecord, do func(*row, time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	r, err := b.of(record)
	if err != nil {
		return err
	}
	return do(r, b.clock.Now())
}

// of returns the row that record still owns.
func (b *Backend) of(record backend.LeaseRecord) (*row, error) {
	r := b.rows[record.WorkID]
	if r == nil || r.holder != record.HolderID || r.token != record.FencingToken {
		return nil, backend.ErrFenced
	}
	return r, nil
}

func (r *row) live(now time.Time) bool { return now.Before(r.expires) }

func (r *row) renew(now time.Time, ttl time.Duration) error {
	if !r.live(now) {
		return backend.ErrLeaseExpired
	}
	r.touch(now, ttl)
	return nil
}

// left says how the row's holder left it, for the one who takes it now.
func (r *row) left() backend.ExitMode {
	if r.exit == backend.ExitNone {
		return backend.ExitExpired
	}
	return r.exit
}

// touch stamps the row and moves its expiry, never back by a clock that went
// back: an injected one may.
func (r *row) touch(now time.Time, ttl time.Duration) {
	r.stamp(now)
	r.expires = r.updated.Add(ttl)
}

// free ends the lease at now.
func (r *row) free(now time.Time) {
	r.stamp(now)
	if r.live(now) {
		r.expires = now
	}
}

func (r *row) stamp(now time.Time) {
	if now.After(r.updated) {
		r.updated = now
	}
}

// clone returns a copy of state, and nil for no state.
func clone(state []byte) []byte {
	if len(state) == 0 {
		return nil
	}
	return bytes.Clone(state)
}
