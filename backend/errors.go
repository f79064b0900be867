package backend

import (
	"errors"
	"fmt"
	"time"
)

// The verdicts of a backend. Compare them with errors.Is; package worklease
// re-exports them as the same values.
var (
	// ErrFenced says that a successor has the lease or that its row is gone. It
	// is final: stop working.
	ErrFenced = errors.New("lease fenced: a successor has it or its record is gone")

	// ErrLeaseHeld says that a live lease exists. See [HeldError].
	ErrLeaseHeld = errors.New("lease held")

	// ErrLeaseExpired says that the lease has lapsed or that its holder has
	// declared an exit already, while no successor has taken it yet.
	ErrLeaseExpired = errors.New("lease expired or released")

	// ErrInvalidExitMode says that a holder cannot declare the mode given.
	ErrInvalidExitMode = errors.New("invalid exit mode: want finished, abandoned or retired")
)

// HeldError is the ErrLeaseHeld of a backend that knows more: errors.Is finds
// [ErrLeaseHeld] in it, errors.As finds who holds the lease.
type HeldError struct {
	HolderID string

	// Remaining is how long the lease lives on unless it is renewed or
	// released, as of the answer; zero or less where that is not known. Who waits
	// for the lease tries again at that moment.
	Remaining time.Duration
}

// Error names the holder and the time that remains.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%v by %q for another %v", ErrLeaseHeld, e.HolderID, e.Remaining)
}

// Unwrap returns ErrLeaseHeld.
func (e *HeldError) Unwrap() error { return ErrLeaseHeld }
