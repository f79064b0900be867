// Package checker holds a history against what worklease promises, from the
// logs and the table alone.
//
// It judges one-sidedly: an operation without an answer may have happened or
// not, at any time until a successor is known, so what it reports did go wrong.
package checker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aetomala/worklease/internal/faults/history"
)

// Rule names what was broken.
type Rule string

// The rules.
const (
	TokenReused    Rule = "token-reused"    // a token was issued twice
	TokenOrder     Rule = "token-order"     // a later acquisition got a lower token
	StaleCall      Rule = "stale-call"      // acknowledged under a token after a higher one was returned
	CallAfterEnd   Rule = "call-after-end"  // acknowledged after the holder's own release or removal
	WindowOverlap  Rule = "window-overlap"  // given to another while its holder could believe in its window
	PreviousHolder Rule = "previous-holder" // PrevExit or PrevHolderID are not the predecessor's
	StateLost      Rule = "state-lost"      // what was read or stored fits no order of the writes
	FalseVerdict   Rule = "false-verdict"   // fenced or expired without a reason
	NotAcquirable  Rule = "not-acquirable"  // an id that nobody could acquire after the storm
	TableDiffers   Rule = "table-differs"   // the table contradicts the last holder
	LedgerDiffers  Rule = "ledger-differs"  // rows that were to commit with a checkpoint are not those that it tells of
	Undecided      Rule = "undecided"       // the search for an order of the writes did not end in time
)

// Violation is one broken promise.
type Violation struct {
	Rule Rule
	ID   string
	At   int64 // by the history's clock
	Text string
}

// String is one line for people.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s at %d: %s", v.Rule, v.ID, v.At, v.Text)
}

// Final is the process that acquires every id after the storm.
const Final = "final"

// Check returns every broken promise that it finds in h.
func Check(h *history.History) []Violation {
	var found []Violation
	found = append(found, tokens(h)...)
	for _, w := range works(h) {
		found = append(found, w.stale()...)
		found = append(found, w.afterEnd()...)
		found = append(found, w.windows()...)
		found = append(found, w.previous()...)
		found = append(found, w.verdicts()...)
		found = append(found, w.states()...)
		found = append(found, w.final()...)
		found = append(found, w.ledger()...)
	}
	return found
}

// settling is how long after its return, or the end of its process, an
// acquisition without an answer may still take the lease: a delayed packet, a
// lock that is waited for.
const settling = int64(15 * time.Second)

// work is the history of one work ID.
type work struct {
	id      string
	ops     []*history.Operation // by Start
	tenures []*tenure            // by token
	hidden  []hidden             // acquisitions that may have happened, with a token unknown
	beliefs []history.Event
	rows    []history.Event
	audits  []history.Event
}

// tenure is one acquisition that was acknowledged, and what was done under it.
type tenure struct {
	holder  string
	token   uint64
	acquire *history.Operation
	ops     []*history.Operation // by Start, without the acquisition
}

type hidden struct {
	holder      string
	start, last int64
}

func works(h *history.History) []*work {
	byID := map[string]*work{}
	of := func(id string) *work {
		if byID[id] == nil {
			byID[id] = &work{id: id}
		}
		return byID[id]
	}
	for _, o := range h.Operations {
		w := of(o.ID)
		w.ops = append(w.ops, o)
		switch {
		case o.Op != history.Acquire:
		case o.Result == history.OK:
			w.tenures = append(w.tenures, &tenure{holder: o.Proc, token: o.Token, acquire: o})
		case o.Result == history.Unknown:
			end := o.End
			if end == history.Never {
				end = h.LastSeen[o.Proc]
			}
			w.hidden = append(w.hidden, hidden{o.Proc, o.Start, end + settling})
		}
	}
	for _, e := range h.Windows {
		of(e.ID).beliefs = append(of(e.ID).beliefs, e)
	}
	for _, e := range h.Rows {
		of(e.ID).rows = append(of(e.ID).rows, e)
	}

	for _, e := range h.Audits {
		of(e.ID).audits = append(of(e.ID).audits, e)
	}

	var all []*work
	for _, w := range byID {
		slices.SortStableFunc(w.tenures, func(a, b *tenure) int { return cmp.Compare(a.token, b.token) })
		for _, o := range w.ops {
			if t := w.tenure(o.Token); t != nil && o.Op != history.Acquire {
				t.ops = append(t.ops, o)
			}
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *work) int { return cmp.Compare(a.id, b.id) })
	return all
}

// tenure returns that of a token, nil where there is none.
func (w *work) tenure(token uint64) *tenure {
	i, ok := slices.BinarySearchFunc(w.tenures, token, func(t *tenure, token uint64) int { return cmp.Compare(t.token, token) })
	if !ok {
		return nil
	}
	return w.tenures[i]
}

// superseded returns when the first acquisition above token had returned.
func (w *work) superseded(token uint64) int64 {
	at := int64(math.MaxInt64)
	for i := len(w.tenures) - 1; i >= 0 && w.tenures[i].token > token; i-- {
		at = min(at, w.tenures[i].acquire.End)
	}
	return at
}

// settled returns from when on a call without an answer can have no effect: when
// the first acquisition above its token had returned, and for a checkpoint before
// one that its holder began after giving it up, and that was acknowledged.
func (w *work) settled(o *history.Operation) int64 {
	at := w.superseded(o.Token)
	t := w.tenure(o.Token)
	if o.Op != history.Checkpoint || t == nil {
		return at
	}
	for _, later := range t.ops {
		if later.Op == history.Checkpoint && later.Result == history.OK && later.Start > o.End {
			at = min(at, later.Start-1)
		}
	}
	return at
}

// mayBeTaken reports whether an acquisition without an answer may have taken
// the lease between from and to.
func (w *work) mayBeTaken(from, to int64) bool {
	return slices.ContainsFunc(w.hidden, func(h hidden) bool { return h.start < to && h.last > from })
}

func (w *work) violation(rule Rule, at int64, format string, args ...any) Violation {
	return Violation{Rule: rule, ID: w.id, At: at, Text: fmt.Sprintf(format, args...)}
}
