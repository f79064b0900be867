package inject

import (
	"context"
	"time"
)

// Fault stands in the way of a call. It returns what the caller gets.
type Fault func(ctx context.Context, call Call) error

// Pass lets the call through.
func Pass(ctx context.Context, call Call) error { return call.Do(ctx) }

// Fail answers with err and does nothing.
func Fail(err error) Fault {
	return func(context.Context, Call) error { return err }
}

// LoseReply makes the call, then answers with err.
func LoseReply(err error) Fault {
	return func(ctx context.Context, call Call) error {
		_ = call.Do(ctx)
		return err
	}
}

// UntilDone does nothing and answers with ctx.Err() once ctx is done, as a
// well-behaved driver does whose server is silent.
func UntilDone(ctx context.Context, _ Call) error {
	<-ctx.Done()
	return ctx.Err()
}

// Hang ignores ctx, as a driver does whose packets vanish, until released is
// closed, and makes the call then, whatever became of ctx: packets may arrive
// late.
func Hang(released <-chan struct{}) Fault {
	return func(ctx context.Context, call Call) error {
		<-released
		return call.Do(context.WithoutCancel(ctx))
	}
}

// Slow makes the call at once and holds its answer back for d, whatever ctx
// says.
func Slow(d time.Duration) Fault {
	return func(ctx context.Context, call Call) error {
		err := call.Do(ctx)
		<-time.After(d)
		return err
	}
}

// Late makes the call only after d, whatever ctx says.
func Late(d time.Duration) Fault {
	return func(ctx context.Context, call Call) error {
		<-time.After(d)
		return call.Do(context.WithoutCancel(ctx))
	}
}

// Times puts fault on the next n calls and lets the ones after them through.
func Times(n int, fault Fault) Fault {
	faults := make([]Fault, n, n+1)
	for i := range faults {
		faults[i] = fault
	}
	return Sequence(append(faults, Pass)...)
}

// Sequence puts the first fault on the next call, the second on the one after
// it, and the last on all further ones.
func Sequence(faults ...Fault) Fault {
	turns := make(chan Fault, len(faults))
	for _, f := range faults {
		turns <- f
	}
	last := faults[len(faults)-1]
	return func(ctx context.Context, call Call) error {
		select {
		case f := <-turns:
			return f(ctx, call)
		default:
			return last(ctx, call)
		}
	}
}
