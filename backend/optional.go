package backend

import (
	"context"
	"iter"
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

// BatchRenewer renews many leases in one step. Renewals of one worklease.Lease that
// fall due close together then cost one call, at most 500 at once. Without it each
// lease is renewed by itself. A wrapper that changes Renew must change or hide
// RenewBatch, too: else most renewals pass it by.
type BatchRenewer interface {
	// RenewBatch does to the lease of each record what Renew would, and returns as
	// many verdicts, in their order: nil, [ErrFenced], [ErrLeaseExpired], or any
	// other error where it could not tell. It waits for nobody who has a lease's
	// row locked: such a lease it leaves, without an answer, to a Renew. A record
	// may occur more than once.
	//
	// The second result says that there are no verdicts; any of the leases may
	// then have been renewed or not.
	//
	// ctx belongs to none of the holders: it carries no values of theirs, and ends
	// when all of them have lost interest.
	RenewBatch(ctx context.Context, records []LeaseRecord, ttl time.Duration) ([]error, error)
}

// Sequencer stores the checkpoints of a lease in the order of generations, so that
// one without an answer cannot land over a later one that was acknowledged: what
// was sent over a slow connection and given up may reach the store at any time.
//
// A holder begins with generation 0 and goes on to the next after each checkpoint
// whose outcome it does not know. It says which by [WithGeneration]. A Checkpoint
// below the latest generation stored for its lease writes nothing and returns an
// error that matches no sentinel. Without a Sequencer a late one can land, until a
// successor has the lease.
type Sequencer interface {
	// Generations returns how many generations the backend tells apart.
	Generations() int
}

type generationKey struct{}

// WithGeneration returns a context for a Checkpoint of a later generation.
func WithGeneration(ctx context.Context, generation int) context.Context {
	return context.WithValue(ctx, generationKey{}, generation)
}

// Generation returns the generation of a Checkpoint, 0 where ctx says none.
func Generation(ctx context.Context) int {
	generation, _ := ctx.Value(generationKey{}).(int)
	return generation
}

// Classifier tells which of its errors a backend expects to pass.
type Classifier interface {
	// Transient reports whether err, returned by this backend, is worth another
	// attempt within seconds: a lost connection, a server that starts up, a
	// serialization failure. The verdicts of this package never are.
	Transient(err error) bool
}

// Notifier tells those who wait for a lease when it may have become free, so that
// they need not wait for their next poll.
//
// What it tells is a hint and never a fact: it may come where the lease is held, and
// may not come where it is free. Whoever waits goes on polling, and only an Acquire
// says who has the lease. Without a Notifier waiters poll.
type Notifier interface {
	// Subscribe asks to be told when workID's lease may have become free: by
	// Release, ForceRelease or Forget, or because it was put back. It is called
	// before the attempt that may find the lease held, does not block and costs
	// nothing where that attempt succeeds. free is nil where nobody will be told.
	//
	// What comes out of free is how many subscribers, of this process, were told
	// together, so that they can spread their attempts. It is never closed, and what
	// is not taken out is not told twice.
	//
	// stop ends the subscription. It may be called more than once.
	Subscribe(workID string) (free <-chan int, stop func())
}

// Lister shows who holds what. It is for operators and their tools: the library
// itself does not ask for it.
type Lister interface {
	// List lists the leases that opts select, each at most once, in an order of
	// work IDs that is the store's own and always the same. Each range over the
	// sequence begins anew.
	//
	// It reads the store as it goes, in steps, and nothing is open or locked
	// between two leases: the body of a range may take its time, call the backend,
	// and break off. So the list is no snapshot. A lease that is there all the
	// while, and is selected all the while, is listed; one that comes or goes
	// meanwhile may be or not.
	//
	// An error ends the sequence, with a zero LeaseInfo beside it. One about opts
	// comes before anything is read; see [ListOptions.Validate]. The end of ctx
	// gives an error that matches ctx.Err() in the place of the next lease, at once
	// even where the store does not answer: unlike a method of [Backend], List
	// keeps that bound itself, since nothing of the library stands above it.
	List(ctx context.Context, opts ListOptions) iter.Seq2[LeaseInfo, error]
}

// ForceReleaser takes a lease from a holder that is known to be dead, without
// waiting for the ttl. It is for operators and their tools: the library itself does
// not ask for it.
type ForceReleaser interface {
	// ForceRelease ends the lease on workID that has this token, live or lapsed,
	// and fences its holder. The lease is free at once and counts as lapsed with
	// no declared exit: a successor reads [ExitExpired], that holder, and the last
	// state. The row gets a greater token, which nobody holds, so that the holder
	// can do nothing to the lease any more; its Checkpoint, which would revive
	// one that has merely lapsed, is refused too.
	//
	// A holder that lives after all learns of it at its next call. Until then it
	// goes on, possibly beside a successor, and what it does elsewhere is not
	// fenced: be sure that it is dead.
	//
	// It returns [ErrFenced] when the row is gone or has another token: the lease
	// has moved on. It returns [ErrLeaseExpired] when the holder has declared an
	// exit, which stands; the lease is free then. Neither changes anything.
	//
	// The end of ctx ends the wait at once, as with [Lister]; the lease may then
	// have been released or not.
	ForceRelease(ctx context.Context, workID string, token uint64) error
}

// Transactor makes a Checkpoint part of a transaction of its caller's, where the
// call's context says so in a way of the backend's own.
//
// Such a checkpoint is stored when the transaction commits, and a rollback leaves
// state and expiry as they were. The expiry counts from the call, and the verdicts
// are those of any Checkpoint. From the call to the transaction's end the lease
// cannot be taken by anybody.
//
// Under such a context Renew and ReadCheckpoint do what they always do, outside the
// transaction. Acquire, Release, Forget, Sweep and ForceRelease refuse it with an error
// that matches no sentinel, and do nothing.
type Transactor interface {
	// Tentative reports whether a Checkpoint under ctx may be rolled back after it
	// has succeeded. worklease then does not count on the expiry that it stored,
	// and leaves its wait to the caller, for whom the driver may do more than end
	// the call when ctx ends: it returns when the backend does.
	//
	// Where a wrapper hides it, worklease takes each Checkpoint for stored: a
	// holder may then believe in its lease for longer than it has it.
	Tentative(ctx context.Context) bool
}
