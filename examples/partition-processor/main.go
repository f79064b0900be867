// Partition-processor shares the partitions of a stream among the processes that
// happen to be alive.
//
// The program plays three processes, each with a pool of its own over the same
// partitions, cuts one off from the database and watches the others take its
// partitions over, each at the offset where it was left. To see it with real
// processes, start several of these and stop them as you like:
//
//	go run ./examples/partition-processor -dsn 'postgres://localhost/test?sslmode=disable' -process a
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aetomala/worklease/examples/internal/store"
	"github.com/aetomala/worklease/pool"
)

func main() {
	log.SetFlags(0)
	dsn := flag.String("dsn", "", "PostgreSQL database to use; empty: in memory")
	name := flag.String("process", "", "be this process of several; empty: play three")
	flag.Parse()
	if *name != "" && *dsn == "" {
		log.Fatal("-process needs -dsn: a store in memory is this process's alone")
	}
	if err := run(*dsn, *name); err != nil {
		log.Fatal(err)
	}
}

func run(dsn, name string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, closeStore, err := store.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if name != "" {
		p := process{name: name, observer: turns{}, handle: func(string, string, int) error { return nil }}
		return p.run(ctx, b)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return play(ctx, b)
}

// turns logs what a real process works on.
type turns struct{ pool.NoopObserver }

func (turns) OnSlotAcquired(_ context.Context, event pool.SlotAcquiredEvent) {
	slog.Info("turn", "partition", event.WorkID)
}

func (turns) OnSlotBackoff(_ context.Context, event pool.SlotBackoffEvent) {
	slog.Warn("failed", "partition", event.WorkID, "error", event.Err, "again in", event.Duration)
}
