package checker

import (
	"slices"

	"github.com/aetomala/worklease/internal/faults/history"
)

// left is how a lease may be found.
type left struct{ exit, holder string }

var untouched = left{exit: "none"}

// previous holds what each holder read of its predecessor against what that one
// did.
func (w *work) previous() []Violation {
	var found []Violation
	for i, t := range w.tenures {
		var first *history.Operation
		for _, o := range t.ops {
			if o.Op != history.Read || o.Result != history.OK {
				continue
			}
			got := left{o.Exit, o.Prev}
			switch want := w.found(i); {
			case first != nil && (left{first.Exit, first.Prev}) != got:
				found = append(found, w.violation(PreviousHolder, o.End,
					"%s under token %d read %v, and %v before", t.holder, t.token, got, left{first.Exit, first.Prev}))
			case first == nil && !slices.Contains(want, got):
				found = append(found, w.violation(PreviousHolder, o.End,
					"%s under token %d read %v, want one of %v", t.holder, t.token, got, want))
			}
			if first == nil {
				first = o
			}
		}
	}
	return found
}

// found returns how the i-th tenure may have found its lease.
func (w *work) found(i int) []left {
	t := w.tenures[i]
	ways, from := []left{untouched}, int64(0)
	if i > 0 {
		ways, from = w.leaves(i-1), w.tenures[i-1].acquire.Start
	}
	// Slices are shared between the tenures' answers.
	ways = slices.Clip(ways)
	for _, h := range w.hidden {
		if h.start < t.acquire.End && h.last > from {
			ways = append(ways, left{"expired", h.holder})
		}
	}
	return ways
}

// leaves returns how the i-th tenure may have left its lease.
func (w *work) leaves(i int) []left {
	t := w.tenures[i]
	ways := []left{{"expired", t.holder}}
	var gone, restored bool
	for _, o := range t.ops {
		switch {
		case o.Op == history.Release && o.Result == history.OK:
			ways = []left{{o.Exit, t.holder}}
		case o.Op == history.Release && o.Result == history.Unknown && len(ways) > 0 && ways[0].exit == "expired":
			ways = append(ways, left{o.Exit, t.holder})
		case o.Op == history.Forget && o.Result == history.OK:
			return []left{untouched}
		case o.Op == history.Forget && o.Result == history.Unknown:
			gone = true
		case o.Op == history.Restore && o.Result == history.OK:
			return w.seen(i)
		case o.Op == history.Restore && o.Result == history.Unknown:
			restored = true
		}
	}
	if gone {
		ways = append(ways, untouched)
	}
	if restored {
		ways = append(ways, w.seen(i)...)
	}
	return ways
}

// seen returns what the i-th tenure did find, where it told, else what it may
// have found.
func (w *work) seen(i int) []left {
	for _, o := range w.tenures[i].ops {
		if o.Op == history.Read && o.Result == history.OK {
			return []left{{o.Exit, o.Prev}}
		}
	}
	return w.found(i)
}
