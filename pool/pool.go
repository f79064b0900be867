// Package pool spreads a fixed set of work IDs over the processes that compete
// for them: each runs one Pool, and whichever acquires a work ID's lease works on
// it. When a process dies, the others take its work IDs over.
//
// # Guarantees
//
// Each slot runs the life of a lease as package worker does. [Pool.Run] returns
// after every work function has, and after the final writes or their bound.
//
// # Not guaranteed
//
// Work IDs are not spread evenly; who comes first has more.
package pool

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/gate"
	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/tenure"
)

// WorkFn does the work of one work ID. It is called as worker.WorkFn is, by
// several slots at once, and again each time its slot has acquired the lease.
//
// It returns the state to store, nil to leave the stored one alone. An error that
// wraps worklease.ErrRetire retires the work ID; a [PermanentError] gives it up.
type WorkFn func(ctx context.Context, workID string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error)

// Pool works on a set of work IDs. [New] makes one. It is safe for concurrent
// use.
type Pool struct {
	cfg   Config
	lease worklease.Lease
	fn    WorkFn

	mu      sync.Mutex
	running bool
	active  map[string]bool // work IDs inside the work function
}

// New returns a Pool. Its error names all that is wrong with lease, cfg and fn;
// see the errors of this package.
func New(lease worklease.Lease, cfg Config, fn WorkFn) (*Pool, error) {
	if err := cfg.validate(lease, fn); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	cfg.WorkIDs = slices.Clone(cfg.WorkIDs)
	cfg.AcquireOptions = slices.Clone(cfg.AcquireOptions)
	cfg.RenewalOptions = slices.Clone(cfg.RenewalOptions)
	return &Pool{cfg: cfg, lease: lease, fn: fn, active: map[string]bool{}}, nil
}

// ActiveSlots returns the work IDs whose work function runs at this moment,
// sorted.
func (p *Pool) ActiveSlots() []string {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.active))
	p.mu.Unlock()
	slices.Sort(ids) // not under the lock that every slot needs
	return ids
}

// jitter is how much longer idle and rerun waits may be, so that slots do not
// come all at once.
const jitter = 0.20

// errRunning is what a second Run gets.
var errRunning = errors.New("pool: Run is already running")

// Run works on all work IDs until ctx ends or every slot has ended. It blocks
// until every work function has returned and its final writes are done, on
// shutdown for at most CleanupTimeout after the last return.
//
// After a run of its function a slot goes on like this; the first that applies:
//
//	work retired (ErrRetire)      OnSlotRetired; the slot ends
//	ctx done                      the slot ends
//	nil                           again after RerunInterval, up to 20 % more
//	fenced                        OnSlotLost; again at once, or after
//	                              BackoffInterval if it held for less than that
//	a PermanentError              OnSlotDead; the slot ends
//	held by somebody else         again after IdleInterval, up to 20 % more, and
//	                              when it lapses or may have been freed
//	any other error               OnSlotBackoff; again after BackoffInterval; and
//	                              OnSlotLost before that if the window ran out
//
// Run returns [ErrAllSlotsDead] when every slot ended with a PermanentError, nil
// when ctx ended or any slot retired, and an error when it is already running. A
// slot that sees ctx end before its PermanentError is not counted as dead, so
// with both at the same moment Run may return nil.
//
// A panic in a work function is reported through OnSlotDead at once, with an
// error that carries its value and stack; its lease lapses, all other slots are
// cancelled and end cleanly, and then Run panics with that error. runtime.Goexit
// is treated likewise.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	if p.running {
		p.mu.Unlock()
		return errRunning
	}
	p.running = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.running = false
		p.mu.Unlock()
	}()

	slotCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &poolRun{Pool: p, observed: ctx, ctx: slotCtx, cancel: cancel}
	r.wrapUp = newWrapUp(slotCtx, p.cfg.CleanupTimeout)
	defer r.wrapUp.close()
	r.terms = tenure.Terms{
		Package:        "pool",
		Lease:          p.lease,
		AcquireOptions: p.cfg.AcquireOptions,
		RenewalOptions: p.cfg.RenewalOptions,
		Idle:           func() time.Duration { return pacing.Jittered(p.cfg.IdleInterval, jitter) },
		Gate:           gate.New(p.cfg.MaxCalls),
		Cleanup:        r.wrapUp.cleanup,
	}

	var slots sync.WaitGroup
	for _, id := range p.cfg.WorkIDs {
		slots.Go(func() { r.slot(id) })
	}
	slots.Wait()
	return r.end()
}

// poolRun is one call of Run.
type poolRun struct {
	*Pool
	terms    tenure.Terms
	observed context.Context // Run's own, for the observer
	ctx      context.Context // of the slots
	cancel   context.CancelFunc
	wrapUp   *wrapUp

	mu       sync.Mutex
	dead     int
	panicked *panicError // the first
}

// end says how Run ends, after all slots have.
func (r *poolRun) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.panicked != nil && r.panicked.goexit:
		runtime.Goexit()
	case r.panicked != nil:
		panic(r.panicked)
	case r.dead == len(r.cfg.WorkIDs):
		return ErrAllSlotsDead
	}
	return nil
}

// slot runs the work of id again and again.
func (r *poolRun) slot(id string) {
	returned := false
	defer func() {
		if !returned {
			r.fall(id, recover())
		}
	}()
	for {
		wait, again := r.once(id)
		if !again || pacing.Sleep(r.ctx, wait) != nil {
			break
		}
	}
	returned = true
}

// fall ends all slots because the work function of id panicked, or called Goexit
// when value is nil.
func (r *poolRun) fall(id string, value any) {
	err := &panicError{workID: id, value: value, goexit: value == nil, stack: debug.Stack()}
	r.mu.Lock()
	if r.panicked == nil {
		r.panicked = err
	}
	r.mu.Unlock()
	r.cancel()
	r.cfg.Observer.OnSlotDead(r.observed, SlotDeadEvent{WorkID: id, Err: err})
}

// once makes one run of id and decides what comes next.
func (r *poolRun) once(id string) (wait time.Duration, again bool) {
	var entered time.Time
	run := r.terms.Run(r.ctx, id, func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
		entered = time.Now() // the wait for a call's turn is no part of the term
		r.enter(id)
		defer r.leave(id)
		r.cfg.Observer.OnSlotAcquired(r.observed, SlotAcquiredEvent{WorkID: id})
		return r.fn(ctx, id, token, prior)
	})
	observer, backoff := r.cfg.Observer, r.cfg.BackoffInterval
	switch {
	case run.Outcome == tenure.Retired:
		observer.OnSlotRetired(r.observed, SlotRetiredEvent{WorkID: id})
		return 0, false
	case r.ctx.Err() != nil:
		return 0, false
	case run.Err == nil:
		return pacing.Jittered(r.cfg.RerunInterval, jitter), true
	case errors.Is(run.Err, worklease.ErrFenced):
		observer.OnSlotLost(r.observed, SlotLostEvent{WorkID: id})
		if entered.IsZero() || time.Since(entered) < backoff {
			return backoff, true
		}
		return 0, true
	case isPermanent(run.Err):
		r.mu.Lock()
		r.dead++
		r.mu.Unlock()
		observer.OnSlotDead(r.observed, SlotDeadEvent{WorkID: id, Err: run.Err})
		return 0, false
	case run.Outcome == tenure.NotAcquired && errors.Is(run.Err, worklease.ErrLeaseHeld):
		return 0, true // it was idle already
	case run.Outcome == tenure.Exhausted:
		observer.OnSlotLost(r.observed, SlotLostEvent{WorkID: id})
	}
	observer.OnSlotBackoff(r.observed, SlotBackoffEvent{WorkID: id, Err: run.Err, Duration: backoff})
	return backoff, true
}

func (r *poolRun) enter(id string) {
	r.wrapUp.enter()
	r.Pool.mu.Lock()
	r.active[id] = true
	r.Pool.mu.Unlock()
}

func (r *poolRun) leave(id string) {
	r.Pool.mu.Lock()
	delete(r.active, id)
	r.Pool.mu.Unlock()
	r.wrapUp.leave()
}
