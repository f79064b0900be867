package checker

import (
	"math"

	"github.com/aetomala/worklease/internal/faults/history"
)

// stale finds calls that were acknowledged although a higher token had been
// returned before they were made.
func (w *work) stale() []Violation {
	var found []Violation
	first := int64(math.MaxInt64) // when the first acquisition above the tenure's had returned
	for i := len(w.tenures) - 1; i >= 0; i-- {
		t := w.tenures[i]
		for _, o := range t.ops {
			if o.Result == history.OK && o.Start > first {
				found = append(found, w.violation(StaleCall, o.End,
					"%s by %s under token %d acknowledged after a higher one was returned", o.Op, t.holder, t.token))
			}
		}
		first = min(first, t.acquire.End)
	}
	return found
}

// afterEnd finds calls that were acknowledged although their holder had left or
// removed the lease before.
func (w *work) afterEnd() []Violation {
	var found []Violation
	for _, t := range w.tenures {
		var ended *history.Operation
		for _, o := range t.ops {
			if o.Result != history.OK {
				continue
			}
			if ended != nil && o.Start > ended.End && !allowed(ended.Op, o.Op) {
				found = append(found, w.violation(CallAfterEnd, o.End,
					"%s by %s under token %d acknowledged after its own %s", o.Op, t.holder, t.token, ended.Op))
			}
			if o.Op == history.Forget || ended == nil && (o.Op == history.Release || o.Op == history.Restore) {
				ended = o
			}
		}
	}
	return found
}

// allowed reports whether a holder may still make a call after it left by ended.
func allowed(ended, op history.Op) bool {
	switch ended {
	case history.Release:
		return op == history.Forget || op == history.Read || op == history.Restore
	case history.Restore:
		return op == history.Read || op == history.Restore
	default:
		return false
	}
}

// verdicts finds calls that were refused without a reason. That somebody holds
// a lease is not judged: nobody logs when its renewals go out.
func (w *work) verdicts() []Violation {
	var found []Violation
	for _, t := range w.tenures {
		for _, o := range t.ops {
			switch {
			case o.Result == history.Fenced && !w.mayBeFenced(t, o):
			case o.Result == history.Expired && o.Op == history.Checkpoint && !mayHave(t, o, history.Release, history.Restore):
			default:
				continue
			}
			found = append(found, w.violation(FalseVerdict, o.End,
				"%s by %s under token %d is %s, and nothing had happened to the lease", o.Op, t.holder, t.token, o.Result))
		}
	}
	return found
}

func (w *work) mayBeFenced(t *tenure, o *history.Operation) bool {
	for i := len(w.tenures) - 1; i >= 0 && w.tenures[i].token > t.token; i-- {
		if w.tenures[i].acquire.Start < o.End {
			return true
		}
	}
	return mayHave(t, o, history.Forget, history.Restore) || w.mayBeTaken(t.acquire.Start, o.End)
}

// mayHave reports whether one of ops may have been done under t before o ended.
func mayHave(t *tenure, o *history.Operation, ops ...history.Op) bool {
	for _, other := range t.ops {
		for _, op := range ops {
			if other != o && other.Op == op && other.May() && other.Start < o.End {
				return true
			}
		}
	}
	return false
}
