package ours

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/pacing"
)

// HeldTTL is that of the leases which are held, renewed every half of it.
const HeldTTL = 30 * time.Second

// heldConnections is the pool of a process that holds many leases.
const heldConnections = 16

// Held is what it takes one process to hold leases for half their TTL, in which
// each is renewed once.
type Held struct {
	Renewed    float64
	Cost       measure.Cost // for all of them
	Bytes      float64      // of heap and stacks of this process, for each lease
	Goroutines float64      // more than before, for all of them
}

// single hides that a backend can renew many leases at once.
type single struct{ backend.Backend }

// Hold acquires leases and lets them be renewed, in batches where the backend can
// unless it is told not to.
func Hold(ctx context.Context, s *Store, on measure.Meter, leases int, batched bool) (Held, error) {
	if err := s.lay(ctx, rows{count: leases}); err != nil {
		return Held{}, err
	}
	h, err := newHoard(ctx, s, batched)
	if err != nil {
		return Held{}, err
	}
	defer h.db.Close()
	ctx, release := context.WithCancel(ctx)
	defer release()

	goroutines, memory := runtime.NumGoroutine(), inUse()
	start := time.Now()
	if err := h.take(ctx, leases); err != nil {
		return Held{}, err
	}
	// A session's statistics are complete once it has ended.
	h.db.SetMaxIdleConns(0)
	before, err := on.Read(ctx)
	if err != nil {
		return Held{}, err
	}
	if took := time.Since(start); took > HeldTTL/2 {
		return Held{}, fmt.Errorf("%d leases took %v, so that renewals were under way before all were held", leases, took)
	}
	held := Held{
		Bytes:      (inUse() - memory) / float64(leases),
		Goroutines: float64(runtime.NumGoroutine() - goroutines),
	}
	h.db.SetMaxIdleConns(heldConnections)

	if err := pacing.Sleep(ctx, HeldTTL/2); err != nil {
		return Held{}, err
	}
	// The last may be under way.
	for until := time.Now().Add(HeldTTL / 4); h.renewed.Load() < int64(leases) && time.Now().Before(until); {
		if err := pacing.Sleep(ctx, 10*time.Millisecond); err != nil {
			return Held{}, err
		}
	}
	h.stop()
	if err := h.db.Close(); err != nil {
		return Held{}, err
	}
	after, err := on.Read(ctx)
	if err != nil {
		return Held{}, err
	}
	held.Cost, held.Renewed = after.Minus(before), float64(h.renewed.Load())
	return held, h.failed.err()
}

// hoard is a process that holds many leases. As its own observer it counts.
type hoard struct {
	worklease.NoopObserver
	db      *sql.DB
	lease   worklease.Lease
	stops   []func()
	renewed atomic.Int64
	failed  first
}

func newHoard(ctx context.Context, s *Store, batched bool) (*hoard, error) {
	db, err := LibPQ.open(ctx, s.dsn, heldConnections)
	if err != nil {
		return nil, err
	}
	b, err := postgres.New(db)
	if err != nil {
		return nil, err
	}
	h := &hoard{db: db}
	var seam backend.Backend = b
	if !batched {
		seam = single{b}
	}
	h.lease, err = worklease.New(seam, worklease.Config{TTL: HeldTTL, HolderID: holder, Observer: h})
	return h, err
}

// take acquires leases and starts their renewal.
func (h *hoard) take(ctx context.Context, leases int) error {
	h.stops = make([]func(), leases)
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		failed first
	)
	for range heldConnections {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(leases); n = next.Add(1) - 1 {
				token, err := h.lease.Acquire(ctx, strconv.FormatInt(n, 10))
				if err != nil {
					failed.note(err)
					return
				}
				_, h.stops[n] = h.lease.StartRenewal(ctx, token)
			}
		})
	}
	wg.Wait()
	return failed.err()
}

func (h *hoard) stop() {
	for _, stop := range h.stops {
		stop()
	}
}

// OnRenew implements [worklease.LeaseObserver].
func (h *hoard) OnRenew(_ context.Context, e worklease.RenewEvent) {
	if e.Err != nil {
		h.failed.note(e.Err)
		return
	}
	h.renewed.Add(1)
}

// first keeps the first of several errors.
type first struct {
	once   sync.Once
	reason atomic.Pointer[error]
}

func (f *first) note(err error) { f.once.Do(func() { f.reason.Store(&err) }) }

func (f *first) err() error {
	if err := f.reason.Load(); err != nil {
		return *err
	}
	return nil
}

// inUse returns the bytes of heap and stacks.
func inUse() float64 {
	runtime.GC()
	runtime.GC() // what the first one found unreachable but for its finalizer
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc + stats.StackInuse)
}
