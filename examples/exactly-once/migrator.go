package main

import (
	"context"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/checkpoint"
	"github.com/aetomala/worklease/worker"
)

const (
	total = 800 // entries
	batch = 100
	ttl   = 2 * time.Second
)

// cursor is the checkpoint.
type cursor struct {
	Moved int `json:"moved"` // entries
}

func encode(moved int) []byte {
	state, err := checkpoint.Encode(checkpoint.JSON(), cursor{Moved: moved})
	if err != nil {
		panic(err) // a number can be encoded
	}
	return state
}

func decode(state []byte) (moved int, err error) {
	c, err := checkpoint.Decode[cursor](checkpoint.JSON(), state)
	return c.Moved, err
}

// event is what a migrator tells of its work.
type event struct {
	What  string
	Token uint64
	Moved int
}

const (
	acquired = "acquired"
	moved    = "moved"
	stopped  = "stopped"
)

// migrator moves what is left of the ledger under a lease, in whatever process.
type migrator struct {
	name   string
	ledger ledger
	tell   func(event)

	// In its second batch it stops at this point for good.
	stopAt point
	stop   func()
}

// run waits for the lease and moves what is left.
func (m migrator) run(ctx context.Context, workID string) error {
	lease, err := worklease.New(m.ledger.store(), worklease.Config{TTL: ttl, HolderID: m.name})
	if err != nil {
		return err
	}
	runner, err := worker.NewRunner(worker.RunnerConfig{
		Lease: lease,
		WorkFn: func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
			// Nil: another checkpoint would be no part of any transaction.
			return nil, m.work(ctx, lease, token, prior)
		},
		AcquireOptions: []worklease.AcquireOption{
			worklease.WithWaitForLease(),
			worklease.WithPollInterval(200 * time.Millisecond),
		},
	})
	if err != nil {
		return err
	}
	return runner.Run(ctx, workID)
}

func (m migrator) work(ctx context.Context, lease worklease.Lease, token worklease.Token, prior worklease.Checkpoint) error {
	at, err := decode(prior.State)
	if err != nil {
		return err
	}
	m.tell(event{What: acquired, Token: token.FencingToken(), Moved: at})
	store := func(ctx context.Context, state []byte) error { return lease.Checkpoint(ctx, token, state) }
	for n := 1; at < total; n++ {
		err := m.ledger.move(ctx, token.WorkID(), at, store, func(p point) {
			if n == 2 && p == m.stopAt {
				m.tell(event{What: stopped, Moved: at + batch})
				m.stop()
			}
		})
		if err != nil {
			return err
		}
		at += batch
		m.tell(event{What: moved, Moved: at})
	}
	return worklease.ErrRetire
}
