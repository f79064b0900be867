package worklease

import (
	"errors"
	"fmt"

	"github.com/aetomala/worklease/backend"
)

// The verdicts of a backend, the same values as in package backend.
var (
	// ErrFenced says that a successor has the lease or that its record is gone.
	// It is final: stop working. Calls to other systems that are already under
	// way are not stopped by it.
	ErrFenced = backend.ErrFenced

	// ErrLeaseHeld says that a live lease exists, be it the caller's own.
	// errors.As finds a [*HeldError] in it where the backend knows more.
	ErrLeaseHeld = backend.ErrLeaseHeld

	// ErrLeaseExpired says that the lease has lapsed, or that an exit has been
	// declared for it, while no successor has taken it yet.
	ErrLeaseExpired = backend.ErrLeaseExpired

	// ErrInvalidExitMode says that Release was given a mode that no holder can
	// declare.
	ErrInvalidExitMode = backend.ErrInvalidExitMode
)

// HeldError is what an ErrLeaseHeld says where the backend knows more.
type HeldError = backend.HeldError

var (
	// ErrConfigInvalid is matched by every error about a configuration, in this
	// package and in worker, leader and pool.
	ErrConfigInvalid = errors.New("invalid configuration")

	// ErrNilBackend says that no backend was given, or a typed nil pointer. It
	// matches ErrConfigInvalid.
	ErrNilBackend = fmt.Errorf("backend is nil: %w", ErrConfigInvalid)

	// ErrRetentionRequired says that Sweep was given a retention of zero or
	// less. It matches ErrConfigInvalid.
	ErrRetentionRequired = fmt.Errorf("no retention given: %w", ErrConfigInvalid)
)

var (
	// ErrLeaseWindowExhausted is the cause of a renewal context whose lease may
	// have lapsed because no renewal succeeded in time. Do not Checkpoint or
	// Release then; the successor sees ExitExpired and the last checkpoint.
	ErrLeaseWindowExhausted = errors.New("lease window exhausted")

	// ErrRetire is for work functions of worker, leader and pool to return,
	// alone or wrapped, when their work is done for good: the lease is released
	// as ExitRetired and the run counts as a success.
	ErrRetire = errors.New("retire this work")
)

// callError is what a call of a Lease failed with. Its text is written when somebody
// reads it: a standby that is refused all day reads none.
type callError struct {
	op, workID, holderID string
	err                  error
}

func (e *callError) Error() string {
	return fmt.Sprintf("worklease: %s: workID=%q holderID=%q: %v", e.op, e.workID, e.holderID, e.err)
}

func (e *callError) Unwrap() error { return e.err }
