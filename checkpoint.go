package worklease

import "github.com/aetomala/worklease/backend"

// Checkpoint is what a holder finds of the one before it: the last state that
// was stored, and how and by whom the lease was left.
type Checkpoint = backend.Checkpoint

// ExitMode says how a holder left its lease. Treat a mode that you do not know
// as ExitExpired; later releases may add some.
type ExitMode = backend.ExitMode

// The exit modes. Release takes ExitFinished, ExitAbandoned and ExitRetired;
// the other two are what a successor may read besides.
const (
	ExitNone      = backend.ExitNone      // no holder before
	ExitFinished  = backend.ExitFinished  // done for now; the state is a resume point
	ExitAbandoned = backend.ExitAbandoned // stopped on purpose with the work undone
	ExitRetired   = backend.ExitRetired   // done for good
	ExitExpired   = backend.ExitExpired   // lapsed without a declared exit
)
