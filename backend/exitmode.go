package backend

import "fmt"

// ExitMode says how a holder left its lease. The zero value is ExitNone.
type ExitMode uint8

// The exit modes. A holder declares the middle three through Release; the
// other two are what a successor may read besides.
const (
	ExitNone      ExitMode = iota // no holder before
	ExitFinished                  // done for now; the state is a resume point for the next run
	ExitAbandoned                 // stopped on purpose with the work undone
	ExitRetired                   // done for good; Sweep may delete the row
	ExitExpired                   // lapsed without a declared exit: a crash, or a lost lease
)

var exitNames = [...]string{"none", "finished", "abandoned", "retired", "expired"}

// String returns the mode's name in lower case, and ExitMode(7) for a value
// that has none.
func (m ExitMode) String() string {
	if int(m) < len(exitNames) {
		return exitNames[m]
	}
	return fmt.Sprintf("ExitMode(%d)", uint8(m))
}

// Declarable reports whether a holder may declare m through Release.
func (m ExitMode) Declarable() bool {
	return m == ExitFinished || m == ExitAbandoned || m == ExitRetired
}
