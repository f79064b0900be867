package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/checkpoint"
	"github.com/aetomala/worklease/worker"
)

const ttl = 2 * time.Second

// steps are the job: what it takes to bring up a new tenant.
var steps = []string{
	"create the account",
	"create the database",
	"load the catalogue",
	"import the users",
	"send the letter of welcome",
	"open for business",
}

// progress is the checkpoint.
type progress struct {
	Done int `json:"done"` // steps
}

// event is what a worker tells of its work.
type event struct {
	Worker     string
	What       string
	Step       int // counted from 1
	Token      uint64
	PrevExit   string
	PrevHolder string
	Done       int // steps that the checkpoint told
}

const (
	acquired = "acquired"
	begun    = "begun"
	stored   = "stored"
)

// employee does the job under a lease, in whatever process.
type employee struct {
	name string
	tell func(event)

	// during is called in the middle of each step.
	during func(ctx context.Context, step int) error
}

// run waits for the lease and does what is left of the job.
func (e employee) run(ctx context.Context, b backend.Backend, workID string) error {
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: e.name})
	if err != nil {
		return err
	}
	runner, err := worker.NewRunner(worker.RunnerConfig{
		Lease: lease,
		WorkFn: func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
			return nil, e.work(ctx, lease, token, prior)
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

// work stores the progress after every step, so that at most one step is done
// twice.
func (e employee) work(ctx context.Context, lease worklease.Lease, token worklease.Token, prior worklease.Checkpoint) error {
	before, err := checkpoint.Decode[progress](checkpoint.JSON(), prior.State)
	if err != nil {
		return err
	}
	e.report(token, event{What: acquired, PrevExit: prior.PrevExit.String(), PrevHolder: prior.PrevHolderID, Done: before.Done})
	for step := before.Done + 1; step <= len(steps); step++ {
		e.report(token, event{What: begun, Step: step})
		if err := e.during(ctx, step); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		state, err := checkpoint.Encode(checkpoint.JSON(), progress{Done: step})
		if err != nil {
			return err
		}
		if err := lease.Checkpoint(ctx, token, state); err != nil {
			return err
		}
		e.report(token, event{What: stored, Step: step})
	}
	return nil
}

func (e employee) report(token worklease.Token, ev event) {
	ev.Worker, ev.Token = e.name, token.FencingToken()
	e.tell(ev)
}
