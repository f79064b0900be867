// Package recorder keeps the events that observers are told, for specs to read
// back.
package recorder

import (
	"context"
	"sync"
	"time"

	"github.com/aetomala/worklease"
)

// Entry is one event.
type Entry struct {
	Name  string    // of the method without its On: Acquire, Renew, Fenced
	At    time.Time // when it was told
	Ctx   context.Context
	Event any // worklease.AcquireEvent and so on
}

// Recorder is a worklease.LeaseObserver and a worklease.VacuumObserver that
// keeps what it is told, in order. Its zero value is ready. It is safe for
// concurrent use.
type Recorder struct {
	mu      sync.Mutex
	entries []Entry
}

var (
	_ worklease.LeaseObserver  = (*Recorder)(nil)
	_ worklease.VacuumObserver = (*Recorder)(nil)
)

// Entries returns what was recorded so far, oldest first.
func (r *Recorder) Entries() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Entry(nil), r.entries...)
}

// Names returns the names of what was recorded so far, oldest first.
func (r *Recorder) Names() []string {
	var names []string
	for _, e := range r.Entries() {
		names = append(names, e.Name)
	}
	return names
}

// Reset forgets what was recorded so far.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = nil
}

// All returns the recorded events of one type, oldest first.
func All[E any](r *Recorder) []E {
	var events []E
	for _, entry := range r.Entries() {
		if e, ok := entry.Event.(E); ok {
			events = append(events, e)
		}
	}
	return events
}

func (r *Recorder) record(ctx context.Context, name string, event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, Entry{Name: name, At: time.Now(), Ctx: ctx, Event: event})
}

// OnAcquire records the event.
func (r *Recorder) OnAcquire(ctx context.Context, event worklease.AcquireEvent) {
	r.record(ctx, "Acquire", event)
}

// OnCheckpoint records the event.
func (r *Recorder) OnCheckpoint(ctx context.Context, event worklease.CheckpointEvent) {
	r.record(ctx, "Checkpoint", event)
}

// OnRenew records the event.
func (r *Recorder) OnRenew(ctx context.Context, event worklease.RenewEvent) {
	r.record(ctx, "Renew", event)
}

// OnRelease records the event.
func (r *Recorder) OnRelease(ctx context.Context, event worklease.ReleaseEvent) {
	r.record(ctx, "Release", event)
}

// OnReadCheckpoint records the event.
func (r *Recorder) OnReadCheckpoint(ctx context.Context, event worklease.ReadCheckpointEvent) {
	r.record(ctx, "ReadCheckpoint", event)
}

// OnForget records the event.
func (r *Recorder) OnForget(ctx context.Context, event worklease.ForgetEvent) {
	r.record(ctx, "Forget", event)
}

// OnFenced records the event.
func (r *Recorder) OnFenced(ctx context.Context, event worklease.FencedEvent) {
	r.record(ctx, "Fenced", event)
}

// OnSweep records the event.
func (r *Recorder) OnSweep(ctx context.Context, event worklease.SweepEvent) {
	r.record(ctx, "Sweep", event)
}
