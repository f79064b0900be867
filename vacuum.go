package worklease

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/bounded"
)

// SweepOptions select what Sweep deletes.
type SweepOptions = backend.SweepOptions

// VacuumConfig configures a [Vacuum].
type VacuumConfig struct {
	Observer VacuumObserver // nil: none
}

// Vacuum deletes rows that nobody needs any more. It is safe for concurrent use,
// also by several processes at once.
type Vacuum struct {
	backend  backend.Backend
	observer VacuumObserver
}

// sweepGrace is how long Sweep waits beyond its ctx for the count of what was
// deleted until then.
const sweepGrace = time.Second

// NewVacuum returns a Vacuum on b. A nil b gives ErrNilBackend.
func NewVacuum(b backend.Backend, cfg VacuumConfig) (*Vacuum, error) {
	if isNil(b) {
		return nil, fmt.Errorf("worklease: NewVacuum: %w", ErrNilBackend)
	}
	return &Vacuum{
		backend:  b,
		observer: cmp.Or[VacuumObserver](cfg.Observer, NoopVacuumObserver{}),
	}, nil
}

// Sweep deletes the rows that were retired more than opts.Retention ago and are
// not held now, with opts.IncludeExpired also those that lapsed with no declared
// exit, and returns how many it deleted. Rows that were finished or abandoned are
// never deleted. The next holder of a deleted work ID sees ExitNone, a holder
// whose row was deleted gets ErrFenced.
//
// It blocks until all are deleted, in steps, or until ctx ends: then it returns
// what was deleted so far, as far as the backend says so within a second, and an
// error that matches ctx.Err(). It may be called again to go on.
//
// Errors: [ErrRetentionRequired] when opts.Retention is zero or less and
// [ErrNilBackend] on a zero Vacuum, both before anything is done; else the
// backend's.
func (v *Vacuum) Sweep(ctx context.Context, opts SweepOptions) (int64, error) {
	if v == nil || isNil(v.backend) {
		return 0, fmt.Errorf("worklease: Sweep: %w", ErrNilBackend)
	}
	if opts.Retention <= 0 {
		return 0, fmt.Errorf("worklease: Sweep: Retention %v: %w", opts.Retention, ErrRetentionRequired)
	}
	start := time.Now()
	n, err := bounded.CallWithGrace(ctx, sweepGrace, func(ctx context.Context) (int64, error) {
		return v.backend.Sweep(ctx, opts)
	})
	if err != nil {
		err = fmt.Errorf("worklease: Sweep: %w", err)
	}
	v.observer.OnSweep(ctx, SweepEvent{Options: opts, Deleted: n, Duration: time.Since(start), Err: err})
	return n, err
}
