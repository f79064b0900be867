package checker

import "github.com/aetomala/worklease/internal/faults/history"

// final holds what remains after the storm against the history: the last process
// acquires every id, and the table shows what it did.
func (w *work) final() []Violation {
	var last *tenure
	for _, t := range w.tenures {
		if t.holder == Final {
			last = t
		}
	}
	if last == nil {
		return []Violation{w.violation(NotAcquirable, 0, "nobody could acquire it after the storm")}
	}
	if len(w.rows) != 1 {
		return []Violation{w.violation(TableDiffers, 0, "%d rows, want 1", len(w.rows))}
	}
	var state string
	for _, o := range last.ops {
		if o.Op == history.Read && o.Result == history.OK {
			state = o.State
		}
	}
	row := w.rows[0]
	if row.Holder != last.holder || row.Token != last.token || row.State != state {
		return []Violation{w.violation(TableDiffers, row.At,
			"the row has holder %q, token %d, state %q; the last holder had %q, %d, %q",
			row.Holder, row.Token, row.State, last.holder, last.token, state)}
	}
	return nil
}
