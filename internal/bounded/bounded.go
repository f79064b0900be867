// Package bounded keeps the library's own bounds on calls into backends.
//
// A driver does not always come back when its context ends: lib/pq with a
// frozen server was still blocked 15 s after a deadline of 500 ms. So wherever
// a context can end, the wait is ours and the call runs beside it.
package bounded

import (
	"context"
	"time"
)

// Call runs fn(ctx) and returns what it returned, but waits no longer than
// ctx lasts: then it returns ctx.Err(), and the result of fn is dropped when it
// comes. It starts nothing when ctx is done at the call.
//
// The goroutine that runs fn ends when fn does; nothing can end it sooner.
func Call[T any](ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	return CallWithGrace(ctx, 0, fn)
}

// CallWithGrace is Call for a result that is worth waiting for a little beyond
// the end of ctx.
func CallWithGrace[T any](ctx context.Context, grace time.Duration, fn func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return fn(ctx)
	}
	type result struct {
		value T
		err   error
	}
	// Buffered, so that a call which nobody waits for any more can end.
	done := make(chan result, 1)
	go func() {
		Grow()
		value, err := fn(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	// A call that came back in time has more to say than ctx.
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		return none, ctx.Err()
	}
}

// Do is Call for a function without a value.
func Do(ctx context.Context, fn func(context.Context) error) error {
	_, err := Call(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, fn(ctx)
	})
	return err
}

// Grow makes room on the stack of a new goroutine for a call into a driver. It
// begins with 2 KB, and such a call takes up to 8: to grow while the call's own
// frames lie on it, which are then moved one by one, took an eighth of a Renew's CPU
// in this process.
func Grow() { grow(0) }

// grow has a frame of that size and returns something of it, so that it is there.
//
//go:noinline
func grow(n int) byte {
	var room [6 << 10]byte
	room[n%len(room)] = 1
	return room[(n+1)%len(room)]
}
