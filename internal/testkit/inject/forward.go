package inject

import (
	"context"
	"time"

	"github.com/aetomala/worklease/backend"
)

// forwarding returns inner behind f, with its optional interfaces. Go cannot add
// a method to a value, so each set of them is a type.
func forwarding(f *Faults, inner backend.Backend) backend.Backend {
	b := &wrapped{f, inner}
	var r backend.Restorer
	inside, restores := inner.(backend.Restorer)
	if restores {
		r = restorer{f, inside}
	}
	s, sequences := inner.(backend.Sequencer)
	c, classifies := inner.(backend.Classifier)

	type (
		R = backend.Restorer
		S = backend.Sequencer
		C = backend.Classifier
	)
	switch [3]bool{restores, sequences, classifies} {
	case [3]bool{true, true, true}:
		return struct {
			*wrapped
			R
			S
			C
		}{b, r, s, c}
	case [3]bool{true, true, false}:
		return struct {
			*wrapped
			R
			S
		}{b, r, s}
	case [3]bool{true, false, true}:
		return struct {
			*wrapped
			R
			C
		}{b, r, c}
	case [3]bool{false, true, true}:
		return struct {
			*wrapped
			S
			C
		}{b, s, c}
	case [3]bool{true, false, false}:
		return struct {
			*wrapped
			R
		}{b, r}
	case [3]bool{false, true, false}:
		return struct {
			*wrapped
			S
		}{b, s}
	case [3]bool{false, false, true}:
		return struct {
			*wrapped
			C
		}{b, c}
	}
	return b
}

type wrapped struct {
	faults *Faults
	inner  backend.Backend
}

func (w *wrapped) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	var record backend.LeaseRecord
	err := w.faults.call(ctx, Acquire, func(ctx context.Context) (err error) {
		record, err = w.inner.Acquire(ctx, workID, holderID, ttl)
		return err
	})
	if err != nil {
		return backend.LeaseRecord{}, err
	}
	return record, nil
}

func (w *wrapped) Checkpoint(ctx context.Context, record backend.LeaseRecord, state []byte, ttl time.Duration) error {
	return w.faults.call(ctx, Checkpoint, func(ctx context.Context) error {
		return w.inner.Checkpoint(ctx, record, state, ttl)
	})
}

func (w *wrapped) Renew(ctx context.Context, record backend.LeaseRecord, ttl time.Duration) error {
	return w.faults.call(ctx, Renew, func(ctx context.Context) error {
		return w.inner.Renew(ctx, record, ttl)
	})
}

func (w *wrapped) Release(ctx context.Context, record backend.LeaseRecord, mode backend.ExitMode) error {
	return w.faults.call(ctx, Release, func(ctx context.Context) error {
		return w.inner.Release(ctx, record, mode)
	})
}

func (w *wrapped) ReadCheckpoint(ctx context.Context, record backend.LeaseRecord) (backend.Checkpoint, error) {
	var cp backend.Checkpoint
	err := w.faults.call(ctx, ReadCheckpoint, func(ctx context.Context) (err error) {
		cp, err = w.inner.ReadCheckpoint(ctx, record)
		return err
	})
	if err != nil {
		return backend.Checkpoint{}, err
	}
	return cp, nil
}

func (w *wrapped) Forget(ctx context.Context, record backend.LeaseRecord) error {
	return w.faults.call(ctx, Forget, func(ctx context.Context) error {
		return w.inner.Forget(ctx, record)
	})
}

// Subscribe is forwarded without a fault: a Notifier may lose what it tells anyway. A
// backend that tells nobody is as good as none.
func (w *wrapped) Subscribe(workID string) (free <-chan int, stop func()) {
	if n, ok := w.inner.(backend.Notifier); ok {
		return n.Subscribe(workID)
	}
	return nil, func() {}
}

func (w *wrapped) Sweep(ctx context.Context, opts backend.SweepOptions) (int64, error) {
	var n int64
	err := w.faults.call(ctx, Sweep, func(ctx context.Context) (err error) {
		n, err = w.inner.Sweep(ctx, opts)
		return err
	})
	return n, err
}

type restorer struct {
	faults *Faults
	inner  backend.Restorer
}

func (r restorer) Restore(ctx context.Context, record backend.LeaseRecord) error {
	return r.faults.call(ctx, Restore, func(ctx context.Context) error {
		return r.inner.Restore(ctx, record)
	})
}
