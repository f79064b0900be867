package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/leader"
)

// A scheduler of which one runs at a time. The callbacks see leadership come and
// go.
func ExampleElect() {
	lease, err := worklease.New(memory.New(), worklease.Config{TTL: 30 * time.Second, HolderID: "node-1"})
	if err != nil {
		log.Fatal(err)
	}
	cfg := leader.Config{
		OnElected: func(_ context.Context, token worklease.Token) {
			fmt.Println(token.HolderID(), "leads", token.WorkID())
		},
		OnRelinquished: func(context.Context, worklease.Token) {
			fmt.Println("free for the next")
		},
	}
	err = leader.Elect(context.Background(), lease, "scheduler:primary", cfg, func(ctx context.Context) error {
		fmt.Println("scheduling until ctx ends:", ctx.Err() == nil)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// node-1 leads scheduler:primary
	// scheduling until ctx ends: true
	// free for the next
}

// A follower calls Elect in a loop: each call on a held lease takes IdleInterval.
// BackoffInterval must be set by a loop that goes on after every error.
func ExampleElect_follower() {
	backend := memory.New()
	leading, err := worklease.New(backend, worklease.Config{TTL: 30 * time.Second, HolderID: "node-1"})
	if err != nil {
		log.Fatal(err)
	}
	following, err := worklease.New(backend, worklease.Config{TTL: 30 * time.Second, HolderID: "node-2"})
	if err != nil {
		log.Fatal(err)
	}
	token, err := leading.Acquire(context.Background(), "scheduler:primary")
	if err != nil {
		log.Fatal(err)
	}

	cfg := leader.Config{IdleInterval: 10 * time.Millisecond, BackoffInterval: 10 * time.Millisecond}
	for led := false; !led; {
		err := leader.Elect(context.Background(), following, "scheduler:primary", cfg, func(context.Context) error {
			led = true
			fmt.Println("node-2 leads")
			return nil
		})
		switch {
		case errors.Is(err, worklease.ErrLeaseHeld):
			fmt.Println("node-2 follows")
			if err := leading.Release(context.Background(), token, worklease.ExitFinished); err != nil {
				log.Fatal(err)
			}
		case err != nil:
			log.Println(err)
		}
	}
	// Output:
	// node-2 follows
	// node-2 leads
}
