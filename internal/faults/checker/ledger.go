package checker

import (
	"fmt"

	"github.com/aetomala/worklease/internal/faults/history"
)

// ledger holds what was looked up in one statement during and after the storm: the
// entries of a work ID, and the cursor in its checkpoint that tells of them.
func (w *work) ledger() []Violation {
	var found []Violation
	for _, e := range w.audits {
		var cursor int64
		if _, err := fmt.Sscan(e.State, &cursor); err != nil && e.State != "" {
			found = append(found, w.violation(LedgerDiffers, e.At, "the state %q begins with no cursor", e.State))
			continue
		}
		switch {
		case e.Entries > e.Distinct:
			found = append(found, w.violation(LedgerDiffers, e.At,
				"%d entries are there more than once, of %d", e.Entries-e.Distinct, e.Distinct))
		case e.Distinct != cursor || e.Last != cursor:
			found = append(found, w.violation(LedgerDiffers, e.At,
				"%d entries up to %d, and a cursor at %d", e.Distinct, e.Last, cursor))
		}
	}
	return found
}

// entries is how many there were at the last audit.
func (w *work) entries() int64 {
	var last history.Event
	for _, e := range w.audits {
		if e.At >= last.At {
			last = e
		}
	}
	return last.Entries
}
