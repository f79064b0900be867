// Package watch lets the lifecycle of a run see more of its renewal than the
// renewal context can say, without a method on the public Lease.
//
// The lifecycle puts a Watch into the context that it hands to StartRenewal. A
// Lease that knows it renews on when that context ends, until it is stopped,
// and reports through it; a Lease that does not, a stranger's, simply does
// neither.
package watch

import (
	"context"
	"sync"
)

// Watch follows one renewal. Its zero value is ready. It is safe for concurrent
// use.
type Watch struct {
	mu   sync.Mutex
	lost error
	open func() bool
}

type key struct{}

// With returns a context under which a renewal reports to w.
func With(ctx context.Context, w *Watch) context.Context {
	return context.WithValue(ctx, key{}, w)
}

// From returns the Watch of ctx, nil without one.
func From(ctx context.Context) *Watch {
	w, _ := ctx.Value(key{}).(*Watch)
	return w
}

// Attach names what tells whether the lease's window is open.
func (w *Watch) Attach(open func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = open
}

// Lose records why the lease was lost. The first reason stands.
func (w *Watch) Lose(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == nil {
		w.lost = cause
	}
}

// Lost returns why the lease was lost, nil while it was not.
func (w *Watch) Lost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Open reports whether the lease's window is open. It is not when no renewal
// attached itself.
func (w *Watch) Open() bool {
	w.mu.Lock()
	open := w.open
	w.mu.Unlock()
	return open != nil && open()
}
