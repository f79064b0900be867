package main

import (
	"context"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/checkpoint"
	"github.com/aetomala/worklease/pool"
)

const ttl = 2 * time.Second

// partitions are what the processes share among them.
var partitions = []string{"orders-0", "orders-1", "orders-2", "orders-3", "orders-4", "orders-5"}

// offset is the checkpoint: the last event of the partition that was handled.
type offset struct {
	Last int `json:"last"`
}

// eventsPerTurn bounds a turn: after it the lease is free for any process, so
// that one which came late gets its share.
const eventsPerTurn = 5

// process is one of those that share the partitions.
type process struct {
	name     string
	observer pool.Observer

	// handle does what there is to do for an event. An event may come twice: what
	// a process did after its last checkpoint is done again by the next one.
	handle func(process, partition string, event int) error
}

// run works until ctx ends.
func (p process) run(ctx context.Context, b backend.Backend) error {
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: p.name})
	if err != nil {
		return err
	}
	pl, err := pool.New(lease, pool.Config{
		WorkIDs:         partitions,
		IdleInterval:    100 * time.Millisecond,
		RerunInterval:   100 * time.Millisecond,
		BackoffInterval: 500 * time.Millisecond,
		Observer:        p.observer,
	}, p.turn)
	if err != nil {
		return err
	}
	return pl.Run(ctx)
}

// turn handles the next events of a partition and returns how far it came.
func (p process) turn(ctx context.Context, partition string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
	at, err := checkpoint.Decode[offset](checkpoint.JSON(), prior.State)
	if err != nil {
		return nil, pool.Permanent(err) // trying again would not help
	}
	for range eventsPerTurn {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond): // the next event comes
		}
		if ctx.Err() != nil {
			break
		}
		if err = p.handle(p.name, partition, at.Last+1); err != nil {
			return nil, err
		}
		at.Last++
	}
	state, err := checkpoint.Encode(checkpoint.JSON(), at)
	if err != nil {
		return nil, err
	}
	return state, ctx.Err()
}
