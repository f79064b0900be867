package main

import (
	"context"
	"expvar"
	"log/slog"

	"github.com/aetomala/worklease"
)

// observer logs every operation of a Lease and counts them, all with the standard
// library. Copy it and change what you like; a metrics client of another kind
// goes where the counters are.
type observer struct {
	worklease.NoopObserver // for events that later releases add
	log                    *slog.Logger
	counts                 *expvar.Map
}

var _ worklease.LeaseObserver = observer{}

func newObserver(log *slog.Logger, counts *expvar.Map) observer {
	return observer{log: log, counts: counts}
}

func (o observer) OnAcquire(ctx context.Context, e worklease.AcquireEvent) {
	o.note(ctx, "acquire", e.Err, "work", e.WorkID, "token", e.Token.FencingToken(), "took", e.Duration)
}

func (o observer) OnReadCheckpoint(ctx context.Context, e worklease.ReadCheckpointEvent) {
	o.note(ctx, "read", e.Err, "work", e.Token.WorkID(), "previous_exit", e.PrevExit,
		"previous_holder", e.PrevHolderID, "bytes", e.Size, "took", e.Duration)
}

func (o observer) OnCheckpoint(ctx context.Context, e worklease.CheckpointEvent) {
	o.note(ctx, "checkpoint", e.Err, "work", e.Token.WorkID(), "bytes", e.Size, "took", e.Duration)
}

func (o observer) OnRenew(ctx context.Context, e worklease.RenewEvent) {
	o.note(ctx, "renew", e.Err, "work", e.Token.WorkID(), "attempt", e.Attempt, "took", e.Duration)
}

func (o observer) OnRelease(ctx context.Context, e worklease.ReleaseEvent) {
	o.note(ctx, "release", e.Err, "work", e.Token.WorkID(), "exit", e.Mode, "took", e.Duration)
}

func (o observer) OnForget(ctx context.Context, e worklease.ForgetEvent) {
	o.note(ctx, "forget", e.Err, "work", e.Token.WorkID(), "took", e.Duration)
}

// OnFenced is the one to be woken up by: somebody worked on without the lease.
func (o observer) OnFenced(ctx context.Context, e worklease.FencedEvent) {
	o.counts.Add("fenced", 1)
	o.log.ErrorContext(ctx, "fenced", "work", e.Token.WorkID(), "while", e.Operation)
}

func (o observer) note(ctx context.Context, operation string, err error, attrs ...any) {
	if err != nil {
		o.counts.Add(operation+"_failed", 1)
		o.log.WarnContext(ctx, operation, append(attrs, "error", err)...)
		return
	}
	o.counts.Add(operation, 1)
	o.log.InfoContext(ctx, operation, attrs...)
}

// sweeps logs and counts what a Vacuum deletes.
type sweeps struct {
	worklease.NoopVacuumObserver
	log    *slog.Logger
	counts *expvar.Map
}

var _ worklease.VacuumObserver = sweeps{}

func (s sweeps) OnSweep(ctx context.Context, e worklease.SweepEvent) {
	s.counts.Add("swept", e.Deleted)
	if e.Err != nil {
		s.log.WarnContext(ctx, "sweep", "deleted", e.Deleted, "took", e.Duration, "error", e.Err)
		return
	}
	s.log.InfoContext(ctx, "sweep", "retention", e.Options.Retention, "deleted", e.Deleted, "took", e.Duration)
}
