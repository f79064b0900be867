package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aetomala/worklease/backend"
)

// forwarding returns inner behind f, with its optional interfaces. Go cannot add a
// method to a value, so each selection of them is a type: none, those of memory, and
// those of PostgreSQL, which can classify its errors too.
func forwarding(f *Faults, inner backend.Backend) backend.Backend {
	type (
		offer interface {
			backend.Restorer
			backend.BatchRenewer
			backend.Sequencer
		}
		most struct {
			*wrapped
			restorer
			batcher
			backend.Sequencer
		}
	)
	b := &wrapped{f, inner}
	offered, all := inner.(offer)
	classifier, classifies := inner.(backend.Classifier)
	if !all {
		for _, some := range []bool{is[backend.Restorer](inner), is[backend.BatchRenewer](inner), is[backend.Sequencer](inner), classifies} {
			if some {
				panic(fmt.Sprintf("inject: %T has a selection of the optional interfaces that is not known here", inner))
			}
		}
		return b
	}
	with := most{b, restorer{f, offered}, batcher{f, offered}, offered}
	if !classifies {
		return with
	}
	return struct {
		most
		backend.Classifier
	}{with, classifier}
}

func is[T any](b backend.Backend) bool {
	_, ok := b.(T)
	return ok
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
	}, record.WorkID)
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

// Tentative is forwarded without a fault: it only looks at ctx. A backend that calls
// no checkpoint tentative is as good as no Transactor.
func (w *wrapped) Tentative(ctx context.Context) bool {
	t, ok := w.inner.(backend.Transactor)
	return ok && t.Tentative(ctx)
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

type batcher struct {
	faults *Faults
	inner  backend.BatchRenewer
}

// RenewBatch is a call of Renew, whose fault meets the batch as one. A verdict that
// the fault answers is that on every lease.
func (b batcher) RenewBatch(ctx context.Context, records []backend.LeaseRecord, ttl time.Duration) ([]error, error) {
	ids := make([]string, len(records))
	for i, record := range records {
		ids[i] = record.WorkID
	}
	var verdicts []error
	err := b.faults.call(ctx, Renew, func(ctx context.Context) (err error) {
		verdicts, err = b.inner.RenewBatch(ctx, records, ttl)
		return err
	}, ids...)
	if errors.Is(err, backend.ErrFenced) || errors.Is(err, backend.ErrLeaseExpired) {
		return slices.Repeat([]error{err}, len(records)), nil
	}
	return verdicts, err
}
