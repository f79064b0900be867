package checker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/aetomala/worklease/internal/faults/history"
)

// register is the part of a lease that porcupine judges: the highest token, and
// the state that stands under it.
type register struct {
	token uint64
	state string
	gone  bool
}

// begin is the pseudo operation that sets the register at the start of a part.
const begin history.Op = "begin"

// model says which order of operations is legal. One without an answer is legal
// until it is settled, and has its effect where its token is the highest.
var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		r, o := state.(register), input.(*history.Operation)
		current := o.Token == r.token && !r.gone
		switch {
		case o.Op == begin:
			return true, register{token: o.Token, state: o.State}
		case o.Op == history.Acquire:
			return o.Token > r.token, register{token: o.Token, state: r.state}
		case o.Op == history.Read:
			return current && o.State == r.state, r
		case o.Result == history.Unknown && !current:
			return true, r
		case o.Op == history.Checkpoint:
			return current, register{token: o.Token, state: o.State}
		default: // Forget
			return current, register{token: o.Token, gone: true}
		}
	},
}

// part is about how many operations porcupine is given at once: its memory grows
// with the square.
const part = 2000

// patience bounds the search for an order of one part.
const patience = 2 * time.Minute

// states finds reads and writes that no order of all of them explains: a
// successor that missed an acknowledged checkpoint, or read what nobody sent.
func (w *work) states() []Violation {
	var found []Violation
	for _, ops := range split(w.registerOps()) {
		switch porcupine.CheckOperationsTimeout(model, ops, patience) {
		case porcupine.Illegal:
			found = append(found, w.violation(StateLost, ops[0].Call, "%s", w.explain(ops)))
		case porcupine.Unknown:
			found = append(found, w.violation(Undecided, ops[0].Call, "%d operations from here on", len(ops)))
		}
	}
	return found
}

// registerOps returns the operations that touch the register, by their start. A
// call without an answer ends when it can have no effect any more. A write without an answer whose state nobody read
// is left out: it changes nothing for the others, and the search is shorter.
func (w *work) registerOps() []porcupine.Operation {
	read := map[string]bool{"": true} // the one state that many send
	for _, o := range w.ops {
		if o.Op == history.Read && o.Result == history.OK {
			read[o.State] = true
		}
	}
	var ops []porcupine.Operation
	for _, o := range w.ops {
		end := o.End
		switch o.Op {
		case history.Acquire, history.Read:
			if o.Result != history.OK {
				continue
			}
		case history.Checkpoint, history.Forget:
			if !o.May() || o.Result == history.Unknown && !read[o.State] {
				continue
			}
			if o.Result == history.Unknown {
				end = w.settled(o)
			}
		default:
			continue
		}
		// A call that was out while its token was superseded can outlast that.
		ops = append(ops, porcupine.Operation{Input: o, Call: o.Start, Return: max(end, o.Start)})
	}
	return ops
}

// split cuts a history into parts where a read was alone: what it read is where
// the next part begins.
func split(ops []porcupine.Operation) [][]porcupine.Operation {
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var parts [][]porcupine.Operation
	var current []porcupine.Operation
	ended := int64(math.MinInt64) // when all before the one at hand had returned
	for i, op := range ops {
		o := op.Input.(*history.Operation)
		alone := op.Call > ended && (i+1 == len(ops) || ops[i+1].Call > op.Return)
		ended = max(ended, op.Return)
		current = append(current, op)
		if len(current) >= part && alone && o.Op == history.Read {
			parts = append(parts, current)
			start := &history.Operation{Event: history.Event{Op: begin, Token: o.Token, State: o.State}}
			current = []porcupine.Operation{{Input: start, Call: op.Call, Return: op.Return}}
		}
	}
	return append(parts, current)
}

// explain finds the first answer that no order explains, for people: porcupine
// only says that there is none for all of them.
func (w *work) explain(ops []porcupine.Operation) string {
	byReturn := slices.Clone(ops)
	slices.SortStableFunc(byReturn, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	n := sort.Search(len(byReturn), func(n int) bool {
		var known []porcupine.Operation
		for _, op := range ops {
			if op.Call <= byReturn[n].Return {
				known = append(known, op)
			}
		}
		return porcupine.CheckOperationsTimeout(model, known, patience) == porcupine.Illegal
	})
	if n == len(byReturn) {
		return "no order of the operations explains their answers"
	}
	o := byReturn[n].Input.(*history.Operation)
	return fmt.Sprintf("no order of the operations explains the %s by %s under token %d with state %q",
		o.Op, o.Proc, o.Token, o.State)
}
