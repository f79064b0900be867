package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/pool"
)

func exampleLease() worklease.Lease {
	lease, err := worklease.New(memory.New(), worklease.Config{TTL: 30 * time.Second, HolderID: "node-1"})
	if err != nil {
		log.Fatal(err)
	}
	return lease
}

// A pool works on its shards until ctx ends, and hands them over then.
func ExamplePool_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var working atomic.Int32
	shards := []string{"shard-0", "shard-1", "shard-2", "shard-3"}
	p, err := pool.New(exampleLease(), pool.Config{WorkIDs: shards},
		func(ctx context.Context, workID string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
			if working.Add(1) == int32(len(shards)) {
				cancel() // as a signal would
			}
			<-ctx.Done()
			return []byte("where " + workID + " got to"), ctx.Err()
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("worked on", working.Load(), "shards; still active:", len(p.ActiveSlots()))
	// Output: worked on 4 shards; still active: 0
}

// New says everything that is wrong with a configuration at once.
func ExampleNew() {
	_, err := pool.New(exampleLease(), pool.Config{WorkIDs: []string{"a", "a", ""}}, nil)
	for _, sentinel := range []error{pool.ErrDuplicateWorkID, pool.ErrEmptyWorkID, pool.ErrWorkFnRequired, worklease.ErrConfigInvalid} {
		fmt.Println(errors.Is(err, sentinel))
	}
	// Output:
	// true
	// true
	// true
	// true
}

// A permanent error drops a slot: its work ID is left as abandoned and not taken
// again by this pool.
func ExamplePermanent() {
	p, err := pool.New(exampleLease(), pool.Config{WorkIDs: []string{"tenant-a", "tenant-b"}},
		func(_ context.Context, workID string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			return nil, pool.Permanent(errors.New(workID + " has no such table"))
		})
	if err != nil {
		log.Fatal(err)
	}
	err = p.Run(context.Background())
	fmt.Println(errors.Is(err, pool.ErrAllSlotsDead))
	// Output: true
}

// A work ID that is done for good is retired. When all are, Run returns.
func ExamplePool_Run_retire() {
	p, err := pool.New(exampleLease(), pool.Config{WorkIDs: []string{"tenant-a", "tenant-b"}, Observer: retirements{}},
		func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
			return []byte("migrated"), worklease.ErrRetire
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Run(context.Background()))
	// Unordered output:
	// tenant-a is done
	// tenant-b is done
	// <nil>
}

// retirements embeds the no-op observer, so that it needs only the method that
// interests it.
type retirements struct{ pool.NoopObserver }

func (retirements) OnSlotRetired(_ context.Context, e pool.SlotRetiredEvent) {
	fmt.Println(e.WorkID, "is done")
}

// ActiveSlots shows what this process works on at the moment.
func ExamplePool_ActiveSlots() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var p *pool.Pool
	p, err := pool.New(exampleLease(), pool.Config{WorkIDs: []string{"shard-0"}},
		func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
			fmt.Println(p.ActiveSlots())
			cancel()
			return nil, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.ActiveSlots())
	// Output:
	// [shard-0]
	// []
}
