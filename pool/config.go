package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/ident"
)

// The errors of New. Each matches ErrConfigInvalid, which matches
// worklease.ErrConfigInvalid.
var (
	// ErrConfigInvalid is matched by every error of New.
	ErrConfigInvalid = fmt.Errorf("pool: %w", worklease.ErrConfigInvalid)

	// ErrLeaseRequired says that the lease is nil.
	ErrLeaseRequired = fmt.Errorf("%w: lease is nil", ErrConfigInvalid)

	// ErrEmptyWorkIDs says that there are no work IDs.
	ErrEmptyWorkIDs = fmt.Errorf("%w: WorkIDs is empty", ErrConfigInvalid)

	// ErrEmptyWorkID says that a work ID is empty.
	ErrEmptyWorkID = fmt.Errorf("%w: WorkIDs holds an empty work ID", ErrConfigInvalid)

	// ErrDuplicateWorkID says that a work ID stands twice.
	ErrDuplicateWorkID = fmt.Errorf("%w: WorkIDs holds a work ID twice", ErrConfigInvalid)

	// ErrWithWaitForLeaseProhibited says that AcquireOptions make slots wait
	// inside Acquire; the pool paces them by itself.
	ErrWithWaitForLeaseProhibited = fmt.Errorf("%w: AcquireOptions holds WithWaitForLease", ErrConfigInvalid)

	// ErrWorkFnRequired says that the work function is nil.
	ErrWorkFnRequired = fmt.Errorf("%w: work function is nil", ErrConfigInvalid)
)

// Config configures a [Pool].
type Config struct {
	// WorkIDs are what to work on, one slot each. Required; no ID may be empty,
	// stand twice, or be one that Lease.Acquire would refuse. New copies them.
	WorkIDs []string

	AcquireOptions []worklease.AcquireOption // without WithWaitForLease
	RenewalOptions []worklease.RenewalOption

	// IdleInterval, and up to a fifth more, is how long a slot waits whose work ID
	// somebody else holds. Meanwhile it tries again when that lease lapses or the
	// backend tells that it may have been freed. Zero or less: 1 s.
	IdleInterval time.Duration

	// RerunInterval, and up to a fifth more, is how long a slot waits whose
	// function returned nil. Zero or less: 1 s.
	RerunInterval time.Duration

	// BackoffInterval is how long a slot waits whose function failed, or whose
	// lease was fenced sooner than that. Zero or less: 1 s.
	BackoffInterval time.Duration

	// CleanupTimeout bounds a slot's final checkpoint and release, from the
	// return of its function on; on shutdown it bounds those of all slots
	// together, from the return of the last function on. What is still queued
	// then is left to lapse. Zero or less: 5 s.
	CleanupTimeout time.Duration

	Observer Observer // nil: none

	// MaxCalls bounds how many slots call the backend at the same moment.
	// Renewals, the work function's own calls, and calls that have been given up
	// because their context ended are not counted. Zero or less: 16.
	MaxCalls int
}

const (
	defaultInterval = time.Second
	defaultMaxCalls = 16
)

// withDefaults returns c with its defaults filled in.
func (c Config) withDefaults() Config {
	for _, d := range []*time.Duration{&c.IdleInterval, &c.RerunInterval, &c.BackoffInterval} {
		if *d <= 0 {
			*d = defaultInterval
		}
	}
	if c.MaxCalls <= 0 {
		c.MaxCalls = defaultMaxCalls
	}
	if c.Observer == nil {
		c.Observer = NoopObserver{}
	}
	return c
}

// validate names everything that is wrong.
func (c Config) validate(lease worklease.Lease, fn WorkFn) error {
	var problems []error
	if lease == nil {
		problems = append(problems, ErrLeaseRequired)
	}
	if fn == nil {
		problems = append(problems, ErrWorkFnRequired)
	}
	if len(c.WorkIDs) == 0 {
		problems = append(problems, ErrEmptyWorkIDs)
	}
	seen := make(map[string]bool, len(c.WorkIDs))
	for i, id := range c.WorkIDs {
		switch err := ident.Check("work ID", id); {
		case id == "":
			problems = append(problems, fmt.Errorf("%w at index %d", ErrEmptyWorkID, i))
		case err != nil:
			problems = append(problems, fmt.Errorf("%w: WorkIDs[%d]: %w", ErrConfigInvalid, i, err))
		case seen[id]:
			problems = append(problems, fmt.Errorf("%w: %q at index %d", ErrDuplicateWorkID, id, i))
		}
		seen[id] = true
	}
	if worklease.HasWaitForLease(c.AcquireOptions) {
		problems = append(problems, ErrWithWaitForLeaseProhibited)
	}
	return errors.Join(problems...)
}
