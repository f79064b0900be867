package conformance_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
)

// faults are backends with one fault each, around one without. They embed the
// concrete type, so that its optional interfaces stay in sight.
var faults = map[string]func() backend.Backend{
	"none":                                 func() backend.Backend { return memory.New() },
	"no exit capture":                      func() backend.Backend { return &noExitCapture{memory.New()} },
	"Checkpoint ignores the token":         func() backend.Backend { return &tokenIgnored{tracked: track()} },
	"Release leaves the lease unexpired":   func() backend.Backend { return &unexpired{Backend: memory.New()} },
	"slices are shared":                    func() backend.Backend { return &shared{Backend: memory.New()} },
	"Forget ignores the holder":            func() backend.Backend { return &holderIgnored{tracked: track()} },
	"a holder acquires its own live lease": func() backend.Backend { return &reentrant{tracked: track()} },
	"ReadCheckpoint drops PrevHolderID":    func() backend.Backend { return &nameless{memory.New()} },
	"RenewBatch answers in another order":  func() backend.Backend { return &unordered{memory.New()} },
	"RenewBatch ignores the token":         func() backend.Backend { return &batchUnfenced{track()} },
	"every checkpoint is tentative":        func() backend.Backend { return &undecided{memory.New()} },
	"two that ask at once both acquire":    func() backend.Backend { return &hasty{tracked: track()} },
	"ForceRelease keeps the token":         func() backend.Backend { return &mild{tracked: track()} },
	"ForceRelease ignores the token":       func() backend.Backend { return &blind{tracked: track()} },
	"List gives states unasked":            func() backend.Backend { return &talkative{memory.New()} },
	"List goes on after its context":       func() backend.Backend { return &unending{memory.New()} },
	"List reads a prefix as a pattern":     func() backend.Backend { return &pattern{memory.New()} },
	"it panics":                            func() backend.Backend { return &panicky{memory.New()} },
	"there is none":                        func() backend.Backend { return nil },
}

// tracked is a backend that knows whose each lease is.
type tracked struct {
	*memory.Backend
	mu     sync.Mutex
	owners map[string]backend.LeaseRecord
}

func track() *tracked {
	return &tracked{Backend: memory.New(), owners: map[string]backend.LeaseRecord{}}
}

func (t *tracked) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, err := t.Backend.Acquire(ctx, workID, holderID, ttl)
	if err == nil {
		t.owners[workID] = rec
	}
	return rec, err
}

func (t *tracked) owner(rec backend.LeaseRecord) backend.LeaseRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	if owner, ok := t.owners[rec.WorkID]; ok {
		return owner
	}
	return rec
}

type noExitCapture struct{ *memory.Backend }

func (b *noExitCapture) ReadCheckpoint(ctx context.Context, rec backend.LeaseRecord) (backend.Checkpoint, error) {
	cp, err := b.Backend.ReadCheckpoint(ctx, rec)
	cp.PrevExit = backend.ExitNone
	return cp, err
}

type tokenIgnored struct{ *tracked }

func (b *tokenIgnored) Checkpoint(ctx context.Context, rec backend.LeaseRecord, state []byte, ttl time.Duration) error {
	rec.FencingToken = b.owner(rec).FencingToken
	return b.tracked.Checkpoint(ctx, rec, state, ttl)
}

type unexpired struct {
	*memory.Backend
	released sync.Map
}

func (b *unexpired) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	if _, ok := b.released.Load(workID); ok {
		return backend.LeaseRecord{}, backend.ErrLeaseHeld
	}
	return b.Backend.Acquire(ctx, workID, holderID, ttl)
}

func (b *unexpired) Release(ctx context.Context, rec backend.LeaseRecord, mode backend.ExitMode) error {
	err := b.Backend.Release(ctx, rec, mode)
	if err == nil {
		b.released.Store(rec.WorkID, true)
	}
	return err
}

type shared struct {
	*memory.Backend
	states sync.Map
}

func (b *shared) Checkpoint(ctx context.Context, rec backend.LeaseRecord, state []byte, ttl time.Duration) error {
	err := b.Backend.Checkpoint(ctx, rec, state, ttl)
	if err == nil {
		b.states.Store(rec.WorkID, state)
	}
	return err
}

func (b *shared) ReadCheckpoint(ctx context.Context, rec backend.LeaseRecord) (backend.Checkpoint, error) {
	cp, err := b.Backend.ReadCheckpoint(ctx, rec)
	if state, ok := b.states.Load(rec.WorkID); ok && cp.State != nil {
		cp.State = state.([]byte)
	}
	return cp, err
}

type holderIgnored struct{ *tracked }

func (b *holderIgnored) Forget(ctx context.Context, rec backend.LeaseRecord) error {
	rec.HolderID = b.owner(rec).HolderID
	return b.tracked.Forget(ctx, rec)
}

type reentrant struct{ *tracked }

func (b *reentrant) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	rec, err := b.tracked.Acquire(ctx, workID, holderID, ttl)
	var held *backend.HeldError
	if errors.As(err, &held) && held.HolderID == holderID {
		rec = b.owner(backend.LeaseRecord{WorkID: workID})
		return rec, b.Renew(ctx, rec, ttl)
	}
	return rec, err
}

type nameless struct{ *memory.Backend }

func (b *nameless) ReadCheckpoint(ctx context.Context, rec backend.LeaseRecord) (backend.Checkpoint, error) {
	cp, err := b.Backend.ReadCheckpoint(ctx, rec)
	cp.PrevHolderID = ""
	return cp, err
}

// undecided takes every checkpoint for one that may be rolled back.
type undecided struct{ *memory.Backend }

func (*undecided) Tentative(context.Context) bool { return true }

// hasty lets everybody have the lease who asks for one at the same time.
type hasty struct {
	*tracked
	asking atomic.Int32
}

func (b *hasty) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	b.asking.Add(1)
	defer b.asking.Add(-1)
	runtime.Gosched() // let others ask
	rec, err := b.tracked.Acquire(ctx, workID, holderID, ttl)
	if errors.Is(err, backend.ErrLeaseHeld) && b.asking.Load() > 1 {
		rec = b.owner(backend.LeaseRecord{WorkID: workID})
		rec.HolderID = holderID
		return rec, nil
	}
	return rec, err
}

type unordered struct{ *memory.Backend }

func (b *unordered) RenewBatch(ctx context.Context, records []backend.LeaseRecord, ttl time.Duration) ([]error, error) {
	verdicts, err := b.Backend.RenewBatch(ctx, records, ttl)
	slices.Reverse(verdicts)
	return verdicts, err
}

type batchUnfenced struct{ *tracked }

func (b *batchUnfenced) RenewBatch(ctx context.Context, records []backend.LeaseRecord, ttl time.Duration) ([]error, error) {
	owned := make([]backend.LeaseRecord, len(records))
	for i, rec := range records {
		owned[i] = rec
		owned[i].FencingToken = b.owner(rec).FencingToken
	}
	return b.tracked.RenewBatch(ctx, owned, ttl)
}

type mild struct{ *tracked }

func (b *mild) ForceRelease(ctx context.Context, workID string, token uint64) error {
	owner := b.owner(backend.LeaseRecord{WorkID: workID})
	if owner.FencingToken != token {
		return backend.ErrFenced
	}
	return b.Renew(ctx, owner, -time.Second)
}

type blind struct{ *tracked }

func (b *blind) ForceRelease(ctx context.Context, workID string, token uint64) error {
	owner := b.owner(backend.LeaseRecord{WorkID: workID, FencingToken: token})
	return b.tracked.ForceRelease(ctx, workID, owner.FencingToken)
}

type talkative struct{ *memory.Backend }

func (b *talkative) List(ctx context.Context, opts backend.ListOptions) iter.Seq2[backend.LeaseInfo, error] {
	opts.State = true
	return b.Backend.List(ctx, opts)
}

type unending struct{ *memory.Backend }

func (b *unending) List(ctx context.Context, opts backend.ListOptions) iter.Seq2[backend.LeaseInfo, error] {
	if ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	return b.Backend.List(ctx, opts)
}

type pattern struct{ *memory.Backend }

func (b *pattern) List(ctx context.Context, opts backend.ListOptions) iter.Seq2[backend.LeaseInfo, error] {
	opts.WorkIDPrefix, _, _ = strings.Cut(opts.WorkIDPrefix, "%")
	return b.Backend.List(ctx, opts)
}

// panicky panics in calls that the suite makes from many goroutines.
type panicky struct{ *memory.Backend }

func (b *panicky) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	if strings.HasPrefix(holderID, "runner-") {
		panic("Acquire")
	}
	return b.Backend.Acquire(ctx, workID, holderID, ttl)
}

func (b *panicky) Renew(context.Context, backend.LeaseRecord, time.Duration) error { panic("Renew") }

func (b *panicky) Forget(context.Context, backend.LeaseRecord) error { panic("Forget") }
