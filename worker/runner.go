// Package worker runs one function under a lease, from acquisition to the
// declared exit.
//
// # Guarantees
//
// The function starts with what the previous holder left, runs while the lease is
// renewed, and what it returns is stored together with how it ended, also when
// the caller's context has ended meanwhile. A function that lost its lease is
// told so through its context, and nothing of it is stored.
//
// # Not guaranteed
//
// What the function did since its last checkpoint is done again by the next
// holder after a crash.
package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/tenure"
)

var (
	// ErrLeaseRequired says that RunnerConfig.Lease is nil. It matches
	// worklease.ErrConfigInvalid.
	ErrLeaseRequired = fmt.Errorf("worker: Lease is nil: %w", worklease.ErrConfigInvalid)

	// ErrWorkFnRequired says that RunnerConfig.WorkFn is nil. It matches
	// worklease.ErrConfigInvalid.
	ErrWorkFnRequired = fmt.Errorf("worker: WorkFn is nil: %w", worklease.ErrConfigInvalid)
)

// WorkFn does the work of a lease. prior is the state that was stored last and
// how the holder before left.
//
// ctx ends with the caller's or with the lease: its cause then is
// worklease.ErrFenced or worklease.ErrLeaseWindowExhausted, and the function
// should return soon. While the function winds down after the caller's context
// has ended, the lease stays renewed.
//
// It returns the state to store, nil to leave the stored one alone; an empty one
// erases it. Its error decides the exit, see [Runner.Run].
type WorkFn func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error)

// RunnerConfig configures a [Runner].
type RunnerConfig struct {
	Lease          worklease.Lease // required
	WorkFn         WorkFn          // required
	AcquireOptions []worklease.AcquireOption
	RenewalOptions []worklease.RenewalOption

	// CleanupTimeout bounds the final checkpoint and release together, from the
	// return of WorkFn on. Zero or less: 5 s.
	CleanupTimeout time.Duration
}

// Runner runs a WorkFn under leases. It is safe for concurrent use, for different
// work IDs at once as well.
type Runner struct {
	terms tenure.Terms
	work  WorkFn
}

// NewRunner returns a Runner. It copies the options. Its errors are
// [ErrLeaseRequired] and [ErrWorkFnRequired], joined where both apply.
func NewRunner(cfg RunnerConfig) (*Runner, error) {
	var problems []error
	if cfg.Lease == nil {
		problems = append(problems, ErrLeaseRequired)
	}
	if cfg.WorkFn == nil {
		problems = append(problems, ErrWorkFnRequired)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return &Runner{
		terms: tenure.Terms{
			Package:        "worker",
			Lease:          cfg.Lease,
			AcquireOptions: slices.Clone(cfg.AcquireOptions),
			RenewalOptions: slices.Clone(cfg.RenewalOptions),
			Cleanup:        tenure.CleanupWithin(cfg.CleanupTimeout),
		},
		work: cfg.WorkFn,
	}, nil
}

// Run acquires the lease on workID, runs the WorkFn under it, stores its state
// and declares its exit. It blocks until then: for the acquisition as long as ctx
// and the acquire options say, then until WorkFn has returned, then for at most
// CleanupTimeout.
//
//	WorkFn returned               stored  released as  Run returns
//	nil                           state   finished     nil
//	an error wrapping ErrRetire   state   retired      nil
//	any other error               state   abandoned    that error
//	ErrFenced, or lease fenced    -       -            ErrFenced
//	lease window ran out          -       -            the error joined with
//	                                                   ErrLeaseWindowExhausted
//
// A final write that fails is retried within CleanupTimeout where its error is
// one that passes; what remains is joined to the error returned. A final state
// that cannot be stored turns the exit into abandoned.
//
// When the lease cannot be acquired Run returns the error of Acquire, such as
// worklease.ErrLeaseHeld; when the checkpoint cannot be read, that error, and the
// lease lapses. When ctx ends before WorkFn was entered, it is not, and the lease
// goes back as it was found. A panic in WorkFn goes on up with the renewal
// stopped: the next holder sees an expired lease.
func (r *Runner) Run(ctx context.Context, workID string) error {
	return r.terms.Run(ctx, workID, tenure.Body(r.work)).Err
}
