package conformance

import (
	"context"

	"github.com/aetomala/worklease/backend"
)

// call is a method that takes a record, made with an effect that others can
// tell: it replaces the state, ends the lease or deletes the row.
type call struct {
	name string
	do   func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error
}

// calls are all of them, in the order of the verdicts' columns.
var calls = []call{
	{"Checkpoint", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		return b.Checkpoint(ctx, rec, []byte("overwritten"), lapsed)
	}},
	{"Renew", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		return b.Renew(ctx, rec, lapsed)
	}},
	{"RenewBatch", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		verdicts, err := b.(backend.BatchRenewer).RenewBatch(ctx, []backend.LeaseRecord{rec}, lapsed)
		if err == nil {
			err = verdicts[0]
		}
		return err
	}},
	{"Release", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		return b.Release(ctx, rec, backend.ExitRetired)
	}},
	{"ReadCheckpoint", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		_, err := b.ReadCheckpoint(ctx, rec)
		return err
	}},
	{"Forget", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		return b.Forget(ctx, rec)
	}},
	{"Restore", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		return b.(backend.Restorer).Restore(ctx, rec)
	}},
	{"ForceRelease", func(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) error {
		return b.(backend.ForceReleaser).ForceRelease(ctx, rec.WorkID, rec.FencingToken)
	}},
}

// offered reports whether the backend has c's method.
func (s *subject) offered(c call) bool {
	ok := true
	switch c.name {
	case "RenewBatch":
		_, ok = s.batcher()
	case "Restore":
		_, ok = s.restorer()
	case "ForceRelease":
		_, ok = s.forceReleaser()
	}
	return ok
}
