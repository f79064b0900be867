package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/leader"
)

const ttl = 2 * time.Second

// node is one process of the cluster.
type node struct {
	name  string
	say   func(string)
	quiet bool // says nothing of standing by
}

// run takes part in the election until ctx ends.
func (n node) run(ctx context.Context, b backend.Backend) error {
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: n.name})
	if err != nil {
		return err
	}
	cfg := leader.Config{
		IdleInterval:    200 * time.Millisecond, // how soon a follower notices
		BackoffInterval: time.Second,            // paces what goes wrong
		OnElected:       func(context.Context, worklease.Token) { n.tell("leads") },
		OnLost:          func(context.Context, worklease.Token) { n.tell("has lost the lease") },
		OnRelinquished:  func(context.Context, worklease.Token) { n.tell("has handed the lease back") },
	}
	standingBy := false
	for ctx.Err() == nil {
		err := leader.Elect(ctx, lease, "scheduler:primary", cfg, n.schedule)
		var held *worklease.HeldError
		if standby := errors.As(err, &held); standby && !standingBy && !n.quiet {
			n.tell("stands by, " + held.HolderID + " leads")
		}
		standingBy = errors.Is(err, worklease.ErrLeaseHeld)
	}
	return nil
}

// schedule is what only one node may do. It ends with its context.
func (n node) schedule(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for tick := 1; ; tick++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if tick <= 3 {
				n.tell(fmt.Sprintf("runs job %d", tick))
			}
		}
	}
}

func (n node) tell(what string) { n.say(n.name + " " + what) }
