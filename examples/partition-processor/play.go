package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/checkpoint"
	"github.com/aetomala/worklease/examples/internal/store"
)

// play tells the story of three processes, one of which is cut off.
func play(ctx context.Context, b backend.Backend) error {
	fmt.Printf("Three processes, %d partitions, a lease of %v.\n\n", len(partitions), ttl)
	if _, err := takeAway(ctx, b); err != nil { // what an earlier run left
		return err
	}
	l := newLedger()
	running, stop := context.WithCancel(ctx)
	defer stop()
	names := []string{"a", "b", "c"}
	cables, ended := map[string]*store.Cable{}, make(chan error, len(names))
	for _, name := range names {
		cable := &store.Cable{Backend: b}
		cables[name] = cable
		p := process{name: name, handle: l.write}
		go func() { ended <- p.run(running, cable) }()
	}

	err := l.until(ctx, func(last, workers map[string]int) bool {
		return len(last) == len(partitions) && len(workers) == len(names)
	})
	if err != nil {
		return err
	}
	fmt.Println("All partitions move, and each process has its turns.")

	fmt.Println("(c is cut off from the database)")
	cables["c"].Pull()
	before, _, _ := l.look()
	err = l.until(ctx, func(last, _ map[string]int) bool {
		for partition, event := range before {
			// More than c can do with the lease that it still has.
			if last[partition] <= event+2*eventsPerTurn {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	fmt.Println("All partitions move on without c.")

	fmt.Println("(the others are stopped)")
	stop()
	for range names {
		err = errors.Join(err, <-ended)
	}
	if err != nil {
		return err
	}
	stored, err := takeAway(ctx, b)
	if err != nil {
		return err
	}
	if err := l.check(stored); err != nil {
		return err
	}
	fmt.Println("Checked: the events of each partition came in order, none was left out,\n" +
		"and the checkpoints say where to go on.")
	return nil
}

// takeAway deletes the rows of all partitions and returns the offsets that were
// stored in them.
func takeAway(ctx context.Context, b backend.Backend) (map[string]int, error) {
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: "cleaner"})
	if err != nil {
		return nil, err
	}
	stored := map[string]int{}
	for _, partition := range partitions {
		token, err := lease.Acquire(ctx, partition, worklease.WithWaitForLease())
		if err != nil {
			return nil, err
		}
		prior, err := lease.ReadCheckpoint(ctx, token)
		if err != nil {
			return nil, err
		}
		at, err := checkpoint.Decode[offset](checkpoint.JSON(), prior.State)
		if err != nil {
			return nil, err
		}
		stored[partition] = at.Last
		if err := lease.Forget(ctx, token); err != nil {
			return nil, err
		}
	}
	return stored, nil
}
