package checker

import "github.com/aetomala/worklease/internal/faults/history"

// Summary is how much a history holds.
type Summary struct {
	Operations int
	Results    map[string]int // by operation and result
	Handoffs   int            // acquisitions after another holder's
	Audits     int            // of a work ID's ledger
	Entries    int64          // in the ledgers, at their last audits
}

// Summarize counts.
func Summarize(h *history.History) Summary {
	s := Summary{Operations: len(h.Operations), Results: map[string]int{}}
	for _, o := range h.Operations {
		s.Results[string(o.Op)+" "+string(o.Result)]++
	}
	for _, w := range works(h) {
		s.Audits += len(w.audits)
		s.Entries += w.entries()
		for i := 1; i < len(w.tenures); i++ {
			if w.tenures[i].holder != w.tenures[i-1].holder {
				s.Handoffs++
			}
		}
	}
	return s
}
