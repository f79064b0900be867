package checker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/aetomala/worklease/internal/faults/history"
)

// tokens holds all acquisitions, of whatever work ID, against the order of real
// time: one that began after another had returned got a higher token.
func tokens(h *history.History) []Violation {
	var found []Violation
	var byStart []*history.Operation
	issued := map[uint64]*history.Operation{}
	for _, o := range h.Operations {
		if o.Op != history.Acquire || o.Result != history.OK {
			continue
		}
		byStart = append(byStart, o)
		if other := issued[o.Token]; other != nil {
			found = append(found, Violation{TokenReused, o.ID, o.End, fmt.Sprintf(
				"token %d for %s, and for %s on %s before", o.Token, o.Proc, other.Proc, other.ID)})
		}
		issued[o.Token] = o
	}
	byEnd := slices.Clone(byStart)
	slices.SortFunc(byStart, func(a, b *history.Operation) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortFunc(byEnd, func(a, b *history.Operation) int { return cmp.Compare(a.End, b.End) })

	var highest *history.Operation
	for _, o := range byStart {
		for len(byEnd) > 0 && byEnd[0].End < o.Start {
			if highest == nil || byEnd[0].Token > highest.Token {
				highest = byEnd[0]
			}
			byEnd = byEnd[1:]
		}
		if highest != nil && o.Token < highest.Token {
			found = append(found, Violation{TokenOrder, o.ID, o.End, fmt.Sprintf(
				"token %d for %s after %d for %s on %s had been returned", o.Token, o.Proc, highest.Token, highest.Proc, highest.ID)})
		}
	}
	return found
}
