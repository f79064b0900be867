// Observability logs what leases do with log/slog and counts it with expvar, for
// one run, a holder that comes too late, one that was fenced, and a sweep.
package main

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/worker"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	counts := expvar.NewMap("worklease") // served at /debug/vars by net/http
	b := memory.New()
	lease, err := worklease.New(b, worklease.Config{
		TTL:      30 * time.Second,
		HolderID: "worker-1",
		Observer: newObserver(logger, counts),
	})
	if err != nil {
		return err
	}
	vacuum, err := worklease.NewVacuum(b, worklease.VacuumConfig{Observer: sweeps{log: logger, counts: counts}})
	if err != nil {
		return err
	}

	// One run, during which somebody else wants the lease too.
	runner, err := worker.NewRunner(worker.RunnerConfig{
		Lease: lease,
		WorkFn: func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			return []byte("all invoices sent"), send(ctx, lease, token)
		},
	})
	if err != nil {
		return err
	}
	if err = runner.Run(ctx, "invoices:2026-10"); err != nil {
		return err
	}

	// The row is retired, so a sweep deletes it.
	if _, err := vacuum.Sweep(ctx, worklease.SweepOptions{Retention: time.Nanosecond}); err != nil {
		return err
	}

	// A holder whose row is gone is fenced.
	token, err := lease.Acquire(ctx, "invoices:2026-11")
	if err != nil {
		return err
	}
	if err := lease.Forget(ctx, token); err != nil {
		return err
	}
	if err := lease.Checkpoint(ctx, token, []byte("half")); !errors.Is(err, worklease.ErrFenced) {
		return errors.Join(errors.New("a checkpoint without a row was not fenced"), err)
	}

	fmt.Println("\ncounts:", counts)
	return nil
}

// send is the work, with a renewal, and somebody who comes too late in the middle.
func send(ctx context.Context, lease worklease.Lease, token worklease.Token) error {
	if err := lease.Renew(ctx, token); err != nil {
		return err
	}
	if _, err := lease.Acquire(ctx, token.WorkID()); !errors.Is(err, worklease.ErrLeaseHeld) {
		return errors.Join(errors.New("a held lease was not refused"), err)
	}
	return worklease.ErrRetire
}
