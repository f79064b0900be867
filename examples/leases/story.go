package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
)

// clock stands still but between the parts of the story.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// story is told on a store in memory.
type story struct {
	tool
	clock *clock
}

// tell lets four workers leave their leases in different ways, one of them by a crash
// and one by force.
func tell(ctx context.Context, out io.Writer) error {
	c := &clock{time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)}
	s := story{tool{memory.New(memory.WithClock(c)), out, c.Now}, c}
	fmt.Fprintf(out, "This needs a PostgreSQL database to look at: -dsn DSN. Until then, a store in memory.\n\n")

	billing, err := s.furnish(ctx)
	if err != nil {
		return err
	}
	if err := s.commands(ctx, "", "-json -exit expired", "-lapsed -prefix import:"); err != nil {
		return err
	}

	fmt.Fprintf(out, "The machine of worker-1 is gone for good. Nobody needs to wait for the TTL:\n\n")
	if err := s.commands(ctx, fmt.Sprintf("force-release billing %d", billing.FencingToken)); err != nil {
		return err
	}
	err = s.store.Checkpoint(ctx, billing, []byte("a late write"), time.Minute)
	if !errors.Is(err, backend.ErrFenced) {
		return fmt.Errorf("a late write of worker-1 gave %w", err)
	}
	fmt.Fprintf(out, "Had it lived after all, its next write would have been refused: %v.\n\n", err)

	c.now = c.now.Add(8 * 24 * time.Hour)
	fmt.Fprintf(out, "A week later:\n\n")
	return s.commands(ctx, "-retention 168h sweep", "forget import:users 2", "")
}

// furnish makes leases of every kind and returns the one that is held.
func (s story) furnish(ctx context.Context) (held backend.LeaseRecord, err error) {
	for _, l := range []struct {
		workID, holder, state string
		exit                  backend.ExitMode
	}{
		{"billing", "worker-2", "invoice 10", backend.ExitAbandoned},
		{"import:users", "worker-3", "row 5000", backend.ExitNone}, // crashes
		{"import:orders", "worker-4", "", backend.ExitFinished},
		{"migration", "worker-2", "done", backend.ExitRetired},
		{"billing", "worker-1", "invoice 40", backend.ExitNone},
	} {
		s.clock.now = s.clock.now.Add(20 * time.Second)
		held, err = s.store.Acquire(ctx, l.workID, l.holder, time.Minute)
		if err == nil && l.state != "" {
			err = s.store.Checkpoint(ctx, held, []byte(l.state), time.Minute)
		}
		if err == nil && l.exit != backend.ExitNone {
			err = s.store.Release(ctx, held, l.exit)
		}
		if err != nil {
			return held, err
		}
	}
	s.clock.now = s.clock.now.Add(5 * time.Second)
	return held, nil
}

// commands does what each line says, as if it had been typed.
func (s story) commands(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		fmt.Fprintln(s.out, strings.TrimSpace("$ leases "+line))
		cmd, err := parse(strings.Fields(line))
		if err == nil {
			err = s.do(ctx, cmd)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(s.out)
	}
	return nil
}
