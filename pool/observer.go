package pool

import (
	"context"
	"time"
)

// Observer sees what becomes of slots. Its methods are called synchronously by
// the slot, with the ctx given to Run, from several goroutines at once. Methods
// may be added in a minor release: embed [NoopObserver].
type Observer interface {
	// OnSlotAcquired reports that a slot enters its work function.
	OnSlotAcquired(ctx context.Context, event SlotAcquiredEvent)

	// OnSlotLost reports that a slot's lease was fenced or its window ran out.
	OnSlotLost(ctx context.Context, event SlotLostEvent)

	// OnSlotBackoff reports that a slot failed and waits before it goes on.
	OnSlotBackoff(ctx context.Context, event SlotBackoffEvent)

	// OnSlotDead reports that a slot ended with a PermanentError or a panic.
	OnSlotDead(ctx context.Context, event SlotDeadEvent)

	// OnSlotRetired reports that a slot ended because its work is done for good.
	OnSlotRetired(ctx context.Context, event SlotRetiredEvent)
}

// SlotAcquiredEvent names the work that starts.
type SlotAcquiredEvent struct{ WorkID string }

// SlotLostEvent names the work that was lost.
type SlotLostEvent struct{ WorkID string }

// SlotBackoffEvent says why a slot waits, and how long.
type SlotBackoffEvent struct {
	WorkID   string
	Err      error
	Duration time.Duration
}

// SlotDeadEvent says why a slot ended.
type SlotDeadEvent struct {
	WorkID string
	Err    error
}

// SlotRetiredEvent names the work that is done for good.
type SlotRetiredEvent struct{ WorkID string }

// NoopObserver discards every event. Embed it in an observer of your own, which
// then needs only the methods that interest it and keeps compiling when a later
// release adds one.
type NoopObserver struct{}

var _ Observer = NoopObserver{}

// OnSlotAcquired discards the event.
func (NoopObserver) OnSlotAcquired(context.Context, SlotAcquiredEvent) {}

// OnSlotLost discards the event.
func (NoopObserver) OnSlotLost(context.Context, SlotLostEvent) {}

// OnSlotBackoff discards the event.
func (NoopObserver) OnSlotBackoff(context.Context, SlotBackoffEvent) {}

// OnSlotDead discards the event.
func (NoopObserver) OnSlotDead(context.Context, SlotDeadEvent) {}

// OnSlotRetired discards the event.
func (NoopObserver) OnSlotRetired(context.Context, SlotRetiredEvent) {}
