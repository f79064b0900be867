package checker

import (
	"math"

	"github.com/aetomala/worklease/internal/faults/history"
)

// windows finds leases that were given to another while their holder could still
// believe in its window and had not begun to leave.
func (w *work) windows() []Violation {
	believed := map[uint64]int64{}
	for _, e := range w.beliefs {
		believed[e.Token] = max(believed[e.Token], e.Until)
	}
	var found []Violation
	next := int64(math.MaxInt64) // when the first acquisition above the tenure's had returned
	for i := len(w.tenures) - 1; i >= 0; i-- {
		t := w.tenures[i]
		if until := min(believed[t.token], t.leaving()); until > next {
			found = append(found, w.violation(WindowOverlap, next,
				"given to another %d ns before the window of %s under token %d closed", until-next, t.holder, t.token))
		}
		next = min(next, t.acquire.End)
	}
	return found
}

// leaving returns when the holder first tried to leave its lease.
func (t *tenure) leaving() int64 {
	for _, o := range t.ops {
		switch o.Op {
		case history.Release, history.Forget, history.Restore:
			return o.Start
		}
	}
	return history.Never
}
