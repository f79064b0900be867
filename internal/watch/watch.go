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

// Watch follows the renewal of one token. It is safe for concurrent use.
type Watch struct {
	token any

	mu   sync.Mutex
	lost error
	open func() bool
}

// New returns a Watch for the renewal of token, a comparable value.
func New(token any) *Watch { return &Watch{token: token} }

type key struct{}

// With returns a context that hands w to a renewal.
func With(ctx context.Context, w *Watch) context.Context {
	return context.WithValue(ctx, key{}, w)
}

// Attach attaches a renewal of token to the Watch of ctx and returns it, or nil
// when there is none to attach to: one of an outer run is for another token, and
// one that has a renewal takes no second. open tells whether the lease's window
// is open.
func Attach(ctx context.Context, token any, open func() bool) *Watch {
	w, _ := ctx.Value(key{}).(*Watch)
	if w == nil || w.token != token {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil {
		return nil
	}
	w.open = open
	return w
}

// Attached reports whether a renewal attached itself, and so reports here.
func (w *Watch) Attached() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open != nil
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
