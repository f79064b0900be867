// Package backend is the seam between worklease and the stores that keep its
// leases: the [Backend] interface, the records that cross it, and the errors
// that both sides compare.
//
// Users of worklease need it only to write a backend of their own; everything
// that they compare is re-exported by package worklease as the same value.
// Package backend/conformance holds what every backend must do as a suite that
// runs against any implementation.
//
// # Optional interfaces
//
// [Restorer], [BatchRenewer], [Sequencer], [Classifier], [Notifier] and [Transactor] are
// optional, in the manner of database/sql/driver: worklease.New asks a backend for them
// once. [Lister] and [ForceReleaser] are optional too, for operators. A wrapper that
// embeds [Backend] hides those of the backend inside unless it forwards them.
//
// # Guarantees
//
// What the methods of [Backend] promise holds for every implementation that
// passes the conformance suite.
//
// # Not guaranteed
//
// A backend waits for nothing and retries nothing: each method is one attempt.
// It does not bound its calls by a clock of its own either; whoever calls it
// must be ready for a driver that does not come back at its context's deadline. The
// methods for operators are the exception, see [Lister].
package backend

import (
	"context"
	"time"
)

// Backend stores leases. A lease is a row under a work ID: who holds it, under
// which fencing token, until when, the last checkpoint, and how it was left.
//
// A lease is live while now < expiry, and free from the expiry on, by the
// backend's own clock; exactly one side wins at the instant itself.
//
// Fencing tokens strictly increase for a work ID, always, and across all work
// IDs of one backend while nobody tampers with the backend's counter. They
// survive Forget and Sweep: a work ID that comes back gets a token above every
// earlier one. Gaps mean nothing.
//
// A non-positive ttl is legal for every method that takes one and stores an
// expiry that has already passed. It is how a suite reaches expiry without
// waiting; worklease.New never lets one through.
//
// Every method makes one attempt. A ctx that is done at the call does nothing
// and gives an error that matches ctx.Err(). A ctx that ends during the call
// gives such an error too, joined with the store's own where it answered; what
// was sent may then have happened or not. Errors that match none of the
// sentinels of this package say nothing about the lease either.
//
// State is copied in and out: no slice is shared with the caller. All methods
// are safe for concurrent use.
//
// This method set is fixed for all of v1. What a backend can do beyond it, it
// says through the optional interfaces of this package, such as [Restorer].
type Backend interface {
	// Acquire takes the lease on workID for holderID.
	//
	// While a live lease exists it returns an error that matches [ErrLeaseHeld],
	// as a [*HeldError] where the backend knows by whom, and changes nothing. A
	// lease is not re-entrant: that holds for holderID's own live lease as well.
	//
	// On a row that has lapsed or was released it issues a greater token, keeps
	// the checkpoint, captures how the row was left ([ExitExpired] where no exit
	// was declared or the stored one is unknown) and by whom as the new lease's
	// PrevExit and PrevHolderID, and clears the declared exit, all in one atomic
	// step. A new row has [ExitNone] and an empty PrevHolderID.
	Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (LeaseRecord, error)

	// Checkpoint stores state and moves the expiry to now + ttl in one step. A
	// nil and an empty state both store "no state".
	//
	// It returns [ErrFenced] when the row is gone or has another holder or
	// token, and [ErrLeaseExpired] once this holder has declared an exit; in
	// both cases nothing is written. A lease that has lapsed but that nobody has
	// taken is revived.
	//
	// The expiry never moves back through calls with the same ttl, in whatever
	// order the store executes them.
	Checkpoint(ctx context.Context, record LeaseRecord, state []byte, ttl time.Duration) error

	// Renew moves the expiry of a live lease to now + ttl, never back through
	// calls with the same ttl.
	//
	// It returns [ErrFenced] when the row is gone or has another holder or
	// token, and [ErrLeaseExpired] when the lease has lapsed or was released.
	Renew(ctx context.Context, record LeaseRecord, ttl time.Duration) error

	// Release records how the holder leaves and frees the lease at once.
	//
	// Any mode but [ExitFinished], [ExitAbandoned] and [ExitRetired] returns
	// [ErrInvalidExitMode] before anything else is looked at. Then it returns
	// [ErrFenced] when the row is gone or has another holder or token, and
	// [ErrLeaseExpired], recording nothing, when the lease has lapsed or an exit
	// was declared before: the first one stands.
	Release(ctx context.Context, record LeaseRecord, mode ExitMode) error

	// ReadCheckpoint returns what the previous holder left. But for State, which
	// is the latest stored one, its answer is the same on every call of one
	// lease.
	//
	// It returns [ErrFenced] when the row is gone or has another token; holder
	// and expiry are not looked at.
	ReadCheckpoint(ctx context.Context, record LeaseRecord) (Checkpoint, error)

	// Forget deletes the row, also after the holder's own Release.
	//
	// It returns [ErrFenced] when the row is gone or has another holder or
	// token.
	Forget(ctx context.Context, record LeaseRecord) error

	// Sweep deletes the rows that opts selects and returns how many it deleted.
	// It may take several steps; on an error the count is of those that were
	// done, and calling it again goes on.
	Sweep(ctx context.Context, opts SweepOptions) (int64, error)
}

// LeaseRecord is what Acquire hands out and what the other methods take back.
type LeaseRecord struct {
	WorkID       string
	HolderID     string
	FencingToken uint64 // above 0; one that the store cannot hold is fenced

	// ExpiresAt is the expiry at the acquisition, by the backend's clock. It
	// never moves and no method compares it.
	ExpiresAt time.Time
}

// Checkpoint is what a holder finds of the one before it.
type Checkpoint struct {
	// State is the last stored state in a slice of the caller's own, nil when
	// none was stored or the last one was empty.
	State []byte

	// PrevExit says how the previous holder left. Treat a mode that you do not
	// know as ExitExpired; later releases may add some.
	PrevExit ExitMode

	// PrevHolderID is the previous holder, empty when there was none.
	PrevHolderID string
}

// SweepOptions select the rows that Sweep deletes: those not held now, last
// updated more than Retention ago, that were released as [ExitRetired]. Rows
// released as finished or abandoned are never deleted.
type SweepOptions struct {
	// Retention is how long a row is kept after its last update. It has no
	// default: worklease.Vacuum refuses zero and less, a backend takes any.
	Retention time.Duration

	// IncludeExpired also deletes rows whose lease lapsed with no declared exit,
	// and with them the partial state that a successor would have resumed from.
	IncludeExpired bool
}
