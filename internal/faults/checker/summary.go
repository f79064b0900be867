package checker

import "github.com/aetomala/worklease/internal/faults/history"

// Summary is how much a history holds.
type Summary struct {
	Operations int
	Results    map[string]int // by operation and result
	Handoffs   int            // acquisitions after another holder's

	// Overtaken counts the reads of a state whose checkpoint had no answer, and
	// landed after a later one of the same lease was acknowledged. An operation
	// without an answer may happen late, so that is no violation; it is what a
	// holder risks that goes on after one.
	Overtaken int
}

// Summarize counts.
func Summarize(h *history.History) Summary {
	s := Summary{Operations: len(h.Operations), Results: map[string]int{}}
	for _, o := range h.Operations {
		s.Results[string(o.Op)+" "+string(o.Result)]++
	}
	for _, w := range works(h) {
		for i := 1; i < len(w.tenures); i++ {
			if w.tenures[i].holder != w.tenures[i-1].holder {
				s.Handoffs++
			}
		}
		s.Overtaken += w.overtaken()
	}
	return s
}

func (w *work) overtaken() int {
	unanswered := map[string]*history.Operation{}
	for _, o := range w.ops {
		if o.Op == history.Checkpoint && o.Result == history.Unknown && o.State != "" {
			unanswered[o.State] = o
		}
	}
	n := 0
	for _, read := range w.ops {
		late := unanswered[read.State]
		if read.Op != history.Read || read.Result != history.OK || late == nil {
			continue
		}
		for _, o := range w.tenure(late.Token).ops {
			if o.Op == history.Checkpoint && o.Result == history.OK && o.Start > late.End && o.End < read.Start {
				n++
				break
			}
		}
	}
	return n
}
