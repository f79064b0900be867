package worklease

import (
	"context"
	"fmt"
	"time"
)

// LeaseObserver sees every operation of a [Lease], after it returned; one that was
// refused for its arguments is not reported. Its methods are called
// synchronously, so a slow one delays its caller; OnRenew delays the next renewal
// of its own lease only. They may be called from several goroutines at once, and
// may call the Lease.
//
// Each gets the context of its operation; OnRenew of a managed renewal gets the
// renewal context. OnFenced comes after the operation's own event.
//
// Methods may be added in a minor release: embed [NoopObserver].
type LeaseObserver interface {
	// OnAcquire reports every attempt, also those of a waiting Acquire.
	OnAcquire(ctx context.Context, event AcquireEvent)
	OnCheckpoint(ctx context.Context, event CheckpointEvent)
	OnRenew(ctx context.Context, event RenewEvent)
	OnRelease(ctx context.Context, event ReleaseEvent)
	OnReadCheckpoint(ctx context.Context, event ReadCheckpointEvent)
	OnForget(ctx context.Context, event ForgetEvent)

	// OnFenced reports that a Checkpoint, Renew, Release or Forget was fenced.
	OnFenced(ctx context.Context, event FencedEvent)
}

// AcquireEvent is one attempt to take a lease.
type AcquireEvent struct {
	WorkID   string
	Token    Token         // zero when the attempt failed
	Duration time.Duration // of the backend call, not of the waiting around it
	Err      error
}

// CheckpointEvent is one stored state. One that is part of a transaction of the
// caller's is reported before the caller commits it, or does not.
type CheckpointEvent struct {
	Token    Token
	Size     int // bytes
	Duration time.Duration
	Err      error
}

// RenewEvent is one renewal.
type RenewEvent struct {
	Token    Token
	Attempt  int // 1, and one more for each failure in a row before it
	Duration time.Duration
	Err      error
}

// ReleaseEvent is one declared exit.
type ReleaseEvent struct {
	Token    Token
	Mode     ExitMode
	Duration time.Duration
	Err      error
}

// ReadCheckpointEvent is one read of what the previous holder left.
type ReadCheckpointEvent struct {
	Token        Token
	PrevExit     ExitMode
	PrevHolderID string
	Size         int // bytes of State
	Duration     time.Duration
	Err          error
}

// ForgetEvent is one removed row.
type ForgetEvent struct {
	Token    Token
	Duration time.Duration
	Err      error
}

// FencedEvent names the operation that found its lease gone.
type FencedEvent struct {
	Token     Token
	Operation Operation
}

// Operation is what a fenced holder was doing.
type Operation uint8

// The operations that can be fenced.
const (
	OperationCheckpoint Operation = iota
	OperationRenew
	OperationRelease
	OperationForget
)

var operationNames = [...]string{"Checkpoint", "Renew", "Release", "Forget"}

// String returns the operation's name, and Operation(7) for a value that has
// none.
func (o Operation) String() string {
	if int(o) < len(operationNames) {
		return operationNames[o]
	}
	return fmt.Sprintf("Operation(%d)", uint8(o))
}

// NoopObserver discards every event. Embed it in an observer of your own, which
// then needs only the methods that interest it and keeps compiling when a later
// release adds one.
type NoopObserver struct{}

var _ LeaseObserver = NoopObserver{}

// OnAcquire discards the event.
func (NoopObserver) OnAcquire(context.Context, AcquireEvent) {}

// OnCheckpoint discards the event.
func (NoopObserver) OnCheckpoint(context.Context, CheckpointEvent) {}

// OnRenew discards the event.
func (NoopObserver) OnRenew(context.Context, RenewEvent) {}

// OnRelease discards the event.
func (NoopObserver) OnRelease(context.Context, ReleaseEvent) {}

// OnReadCheckpoint discards the event.
func (NoopObserver) OnReadCheckpoint(context.Context, ReadCheckpointEvent) {}

// OnForget discards the event.
func (NoopObserver) OnForget(context.Context, ForgetEvent) {}

// OnFenced discards the event.
func (NoopObserver) OnFenced(context.Context, FencedEvent) {}

// VacuumObserver sees every Sweep that reached the backend, synchronously after
// it returned. Methods may be added in a minor release: embed
// [NoopVacuumObserver].
type VacuumObserver interface {
	OnSweep(ctx context.Context, event SweepEvent)
}

// SweepEvent is one Sweep.
type SweepEvent struct {
	Options  SweepOptions
	Deleted  int64 // also what was deleted before an error
	Duration time.Duration
	Err      error
}

// NoopVacuumObserver discards every event.
type NoopVacuumObserver struct{}

var _ VacuumObserver = NoopVacuumObserver{}

// OnSweep discards the event.
func (NoopVacuumObserver) OnSweep(context.Context, SweepEvent) {}
