package backend

import "context"

// The interfaces of this file are optional, in the manner of
// database/sql/driver. worklease.New asks a backend for them once. A wrapper
// that embeds [Backend] hides those of the backend inside unless it forwards
// them.

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

// Classifier tells which of its errors a backend expects to pass.
type Classifier interface {
	// Transient reports whether err, returned by this backend, is worth another
	// attempt within seconds: a lost connection, a server that starts up, a
	// serialization failure. The verdicts of this package never are.
	Transient(err error) bool
}
