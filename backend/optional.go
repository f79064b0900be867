package backend

import (
	"context"
	"time"
)

// Restorer puts a lease back as Acquire found it, so that an acquisition that
// nobody could use leaves no trace but a gap between tokens.
//
// Without it worklease comes as close as the other methods allow: it releases
// with the previous exit where that can be declared, forgets the row where
// there was no previous holder, and else lets the lease lapse.
type Restorer interface {
	// Restore undoes the acquisition that record came from. With no previous
	// holder the row goes; else the previous holder and its declared exit
	// return and the lease is free at once. The checkpoint stays, and so does
	// the token, which never falls.
	//
	// It is guarded by the token alone, so that it works after the lease has
	// lapsed too. It returns [ErrFenced] when the row is gone or has another
	// token.
	Restore(ctx context.Context, record LeaseRecord) error
}

// MaxGeneration is the last generation of a [Sequencer].
const MaxGeneration = 999

// Sequencer stores the checkpoints of a lease in the order of generations, so that
// one without an answer cannot land over a later one that was acknowledged: what
// was sent over a slow connection and given up may reach the store at any time.
//
// Without it that can happen, until a successor has the lease.
type Sequencer interface {
	// CheckpointIn is Checkpoint for a holder that begins with generation 0 and
	// goes on to the next, up to [MaxGeneration], after each checkpoint whose
	// outcome it does not know. One below the latest generation stored for its
	// lease writes nothing and returns an error that matches no sentinel.
	// Checkpoint is that of generation 0.
	CheckpointIn(ctx context.Context, record LeaseRecord, generation int, state []byte, ttl time.Duration) error
}

// Classifier tells which of its errors a backend expects to pass.
type Classifier interface {
	// Transient reports whether err, returned by this backend, is worth another
	// attempt within seconds: a lost connection, a server that starts up, a
	// serialization failure. The verdicts of this package never are.
	Transient(err error) bool
}
