// Package window keeps how long a holder may still act on its lease, by the
// holder's own monotonic clock.
package window

import (
	"sync"
	"time"
)

// Window lies between the local start of the last write that extended the
// lease and the moment when the store may call it lapsed. The store stamps a
// write later than the holder started it, so start + TTL cannot exceed the true
// expiry while clocks run at the same rate.
//
// It is safe for concurrent use.
type Window struct {
	mu       sync.Mutex
	since    time.Time
	deadline time.Time

	generation int
}

// Open returns the window of a lease whose acquisition started at start. An
// expiry ahead of the local clock shortens it, since a store may grant less
// than was asked; one in the past, or unset, is a clock's fault and ignored.
func Open(start time.Time, ttl time.Duration, expiry time.Time) *Window {
	w := &Window{since: start, deadline: start.Add(ttl)}
	now := time.Now()
	if ahead := expiry.Sub(now); ahead > 0 && now.Add(ahead).Before(w.deadline) {
		w.deadline = now.Add(ahead)
	}
	return w
}

// Extend moves the window for a write of ttl that started at start and
// succeeded. It never moves back, and never once it has closed.
func (w *Window) Extend(start time.Time, ttl time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if deadline := start.Add(ttl); deadline.After(w.deadline) && time.Now().Before(w.deadline) {
		w.since, w.deadline = start, deadline
	}
}

// Generation returns the generation of the next checkpoint.
func (w *Window) Generation() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.generation
}

// Supersede ends a generation, after a checkpoint of it whose outcome is unknown.
func (w *Window) Supersede(generation int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation == generation {
		w.generation++
	}
}

// Deadline returns when the window closes or closed.
func (w *Window) Deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadline
}

// Open reports whether the window is open.
func (w *Window) Open() bool { return time.Now().Before(w.Deadline()) }

// Due returns when the next renewal is due: interval after the window began to
// run, and no later than half of it.
func (w *Window) Due(interval time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since.Add(min(interval, w.deadline.Sub(w.since)/2))
}
