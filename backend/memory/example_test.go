package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
)

// A backend in memory is all that a test of one's own needs.
func ExampleNew() {
	lease, err := worklease.New(memory.New(), worklease.Config{TTL: time.Minute, HolderID: "test-worker"})
	if err != nil {
		log.Fatal(err)
	}
	token, err := lease.Acquire(context.Background(), "billing-run")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token.WorkID(), token.HolderID(), token.FencingToken())
	// Output: billing-run test-worker 1
}

// fixedClock stands still until somebody sets it.
type fixedClock struct{ now time.Time }

func (c *fixedClock) Now() time.Time { return c.now }

// A test that sets the clock sees a lease lapse without waiting for it.
func ExampleWithClock() {
	ctx := context.Background()
	clock := &fixedClock{now: time.Date(2026, time.October, 1, 9, 0, 0, 0, time.UTC)}
	b := memory.New(memory.WithClock(clock))

	rec, err := b.Acquire(ctx, "billing-run", "worker-a", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("expires at", rec.ExpiresAt.Format(time.TimeOnly))

	clock.now = rec.ExpiresAt.Add(-time.Second)
	_, err = b.Acquire(ctx, "billing-run", "worker-b", time.Minute)
	fmt.Println("held:", errors.Is(err, worklease.ErrLeaseHeld))

	clock.now = rec.ExpiresAt
	next, err := b.Acquire(ctx, "billing-run", "worker-b", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	cp, err := b.ReadCheckpoint(ctx, next)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cp.PrevHolderID, cp.PrevExit)
	// Output:
	// expires at 09:01:00
	// held: true
	// worker-a expired
}

// Whoever knows that a holder is dead need not wait for its TTL.
func ExampleBackend_ForceRelease() {
	ctx := context.Background()
	b := memory.New()
	dead, err := b.Acquire(ctx, "billing-run", "worker-a", time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	for info, err := range b.List(ctx, backend.ListOptions{Live: true, HolderID: "worker-a"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.HolderID, "has", info.WorkID, "under token", info.FencingToken)
		if err := b.ForceRelease(ctx, info.WorkID, info.FencingToken); err != nil {
			log.Fatal(err)
		}
	}
	err = b.Checkpoint(ctx, dead, []byte("too late"), time.Hour)
	fmt.Println("fenced:", errors.Is(err, worklease.ErrFenced))
	// Output:
	// worker-a has billing-run under token 1
	// fenced: true
}
