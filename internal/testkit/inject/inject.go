// Package inject puts faults between the library and a real backend.
//
// The backend inside does the work, so that a fake cannot drift from the
// contract; a fault decides when, whether, and what of it the caller hears:
//
//	faults, b := inject.Around(memory.New())
//	faults.On(inject.Renew, inject.Times(5, inject.Fail(io.EOF)))
package inject

import (
	"context"
	"sync"
	"time"

	"github.com/aetomala/worklease/backend"
)

// Op names a method of a backend.
type Op string

// The methods that faults can be put on.
const (
	Acquire        Op = "Acquire"
	Checkpoint     Op = "Checkpoint"
	Renew          Op = "Renew"
	Release        Op = "Release"
	ReadCheckpoint Op = "ReadCheckpoint"
	Forget         Op = "Forget"
	Sweep          Op = "Sweep"
	Restore        Op = "Restore"
)

// Call is one call on its way to the backend inside.
type Call struct {
	Op    Op
	N     int // counted from 1 for each Op
	Start time.Time

	// WorkIDs are the leases that a Renew is about, several in a batch.
	WorkIDs []string

	// Do makes the call on the backend inside. What it returns besides the error
	// reaches the caller when the fault returns nil; a Sweep's count always does.
	Do func(ctx context.Context) error
}

// Faults are the faults around one backend. It is safe for concurrent use.
type Faults struct {
	mu     sync.Mutex
	faults map[Op]Fault
	calls  map[Op][]Call
	out    map[Op]int
}

// Around returns inner with faults around it, none at first. The backend that it
// returns has those optional interfaces of inner that the library asks for, and no
// others.
func Around(inner backend.Backend) (*Faults, backend.Backend) {
	f := &Faults{faults: map[Op]Fault{}, calls: map[Op][]Call{}, out: map[Op]int{}}
	return f, forwarding(f, inner)
}

// On puts fault on every further call of op, in place of what was there. nil
// takes it away.
func (f *Faults) On(op Op, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[op] = fault
}

// Calls returns the calls of op so far, oldest first.
func (f *Faults) Calls(op Op) []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls[op]...)
}

// Count returns how many calls of op there were so far.
func (f *Faults) Count(op Op) int { return len(f.Calls(op)) }

// Out returns how many calls of op have not come back.
func (f *Faults) Out(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out[op]
}

// call sends one call of op through its fault.
func (f *Faults) call(ctx context.Context, op Op, do func(context.Context) error, workIDs ...string) error {
	f.mu.Lock()
	call := Call{Op: op, N: len(f.calls[op]) + 1, Start: time.Now(), WorkIDs: workIDs, Do: do}
	f.calls[op] = append(f.calls[op], call)
	f.out[op]++
	fault := f.faults[op]
	f.mu.Unlock()

	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.out[op]--
	}()
	if fault == nil {
		return do(ctx)
	}
	return fault(ctx, call)
}
