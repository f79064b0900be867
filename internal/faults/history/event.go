// Package history is what worker processes write down about their operations,
// and how it is read back.
//
// Every process appends to a file of its own, one JSON line an event: one when
// an operation is invoked, before anything is sent, and one when it returned. A
// process that is killed leaves operations without a return: they may have
// happened or not. All times are nanoseconds of a clock that the processes of
// one machine share.
package history

import "math"

// Kind says what an event is.
type Kind string

// The kinds.
const (
	Call   Kind = "call"   // an operation is about to be sent
	Return Kind = "return" // its outcome
	Window Kind = "window" // the holder believes in its lease until Until
	Row    Kind = "row"    // a row of the table after the run
	Audit  Kind = "audit"  // a ledger and the checkpoint that tells of it, in one snapshot
)

// Op is an operation of a lease.
type Op string

// The operations.
const (
	Acquire    Op = "acquire"
	Read       Op = "read"
	Checkpoint Op = "checkpoint"
	Renew      Op = "renew"
	Release    Op = "release"
	Forget     Op = "forget"
	Restore    Op = "restore"
)

// Result is how an operation came out.
type Result string

// The results. Whatever is neither a success, nor a verdict, nor rolled back is
// Unknown: the operation may have happened.
const (
	OK      Result = "ok"
	Held    Result = "held"
	Fenced  Result = "fenced"
	Expired Result = "expired"
	Unknown Result = "unknown"
	Undone  Result = "undone" // its caller's transaction was rolled back
)

// Event is one line of a log.
type Event struct {
	At    int64  `json:"at"`
	Kind  Kind   `json:"kind"`
	Proc  string `json:"proc"`          // the process's holder ID, never used twice
	Seq   int64  `json:"seq,omitempty"` // joins a return to its call, within Proc
	Op    Op     `json:"op,omitempty"`
	ID    string `json:"id"`
	Token uint64 `json:"token,omitempty"`
	State string `json:"state,omitempty"` // sent or read; empty for none

	// Exit is the mode that a release declares, the PrevExit that a read gave,
	// or the declared exit of a row.
	Exit string `json:"exit,omitempty"`

	Prev   string `json:"prev,omitempty"` // the PrevHolderID that a read gave
	Result Result `json:"result,omitempty"`
	Error  string `json:"error,omitempty"` // for people
	Until  int64  `json:"until,omitempty"`
	Holder string `json:"holder,omitempty"` // of a row

	// Of an audit: how many entries the ledger has, how many different ones, and the
	// greatest.
	Entries  int64 `json:"entries,omitempty"`
	Distinct int64 `json:"distinct,omitempty"`
	Last     int64 `json:"last,omitempty"`
}

// Never is the return time of an operation that has none.
const Never = math.MaxInt64

// Operation is a call joined with its return.
type Operation struct {
	Event       // the return's, or the call's where there is none
	Start int64 // when it was invoked
	End   int64 // when it returned, Never if it did not
}

// May reports whether the operation had its effect, or may have had.
func (o *Operation) May() bool { return o.Result == OK || o.Result == Unknown }

// History is what a run left behind.
type History struct {
	Operations []*Operation // by Start
	Windows    []Event
	Rows       []Event // of the table after the run
	Audits     []Event
	LastSeen   map[string]int64
}
