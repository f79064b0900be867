// By-hand does what worker.Runner does, step by step, for work that needs control
// over a step. Three runs: the first fails, the second finishes, the third finds
// the work retired.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
)

func main() {
	log.SetFlags(0)
	lease, err := worklease.New(memory.New(), worklease.Config{TTL: 30 * time.Second, HolderID: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for _, work := range []workFn{breakDown, finish, finish} {
		err := runOnce(ctx, lease, "billing-run-2026-10", work)
		fmt.Println("run returned:", err)
	}
}

type workFn func(ctx context.Context, state []byte) ([]byte, error)

// runOnce holds the lease on workID for one call of work.
func runOnce(ctx context.Context, lease worklease.Lease, workID string, work workFn) error {
	// A context of the run's own, so that a long-lived parent keeps nothing of it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	token, err := lease.Acquire(ctx, workID)
	if err != nil {
		return err // worklease.ErrLeaseHeld: somebody else has it
	}
	prior, err := lease.ReadCheckpoint(ctx, token)
	if err != nil {
		return err
	}
	switch prior.PrevExit {
	case worklease.ExitNone:
		fmt.Println("nobody was here before: from the start")
	case worklease.ExitFinished:
		fmt.Printf("the last run finished with %q\n", prior.State)
	case worklease.ExitRetired:
		fmt.Println("done for good: handed back as it was")
		return lease.Release(ctx, token, worklease.ExitRetired)
	default:
		// Abandoned, expired, or a mode of a later release: the state is partial.
		fmt.Printf("%s left it %s with %q\n", prior.PrevHolderID, prior.PrevExit, prior.State)
	}

	renewCtx, stopRenewal := lease.StartRenewal(ctx, token)
	defer stopRenewal() // for a panic
	state, workErr := work(renewCtx, prior.State)
	cause := context.Cause(renewCtx) // before the stop
	stopRenewal()                    // before the release

	switch {
	case errors.Is(workErr, worklease.ErrFenced), errors.Is(cause, worklease.ErrFenced):
		return worklease.ErrFenced // a successor has the lease: write nothing
	case errors.Is(cause, worklease.ErrLeaseWindowExhausted):
		return errors.Join(workErr, cause) // the successor sees ExitExpired
	}

	// The last writes must survive the end of ctx, and must not hang a shutdown.
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelLast()
	mode := worklease.ExitRetired // or ExitFinished for work that comes again
	if workErr != nil {
		mode = worklease.ExitAbandoned
	}
	if state != nil { // an empty state would erase what is stored
		if err := lease.Checkpoint(last, token, state); err != nil {
			return errors.Join(workErr, err)
		}
	}
	return errors.Join(workErr, lease.Release(last, token, mode))
}

var errDown = errors.New("the bank is down")

// breakDown comes half of the way.
func breakDown(context.Context, []byte) ([]byte, error) {
	return []byte("first half"), errDown
}

// finish does the rest, if there is enough of the lease left for it.
func finish(ctx context.Context, state []byte) ([]byte, error) {
	if deadline, ok := worklease.LeaseWindow(ctx); !ok || time.Until(deadline) < 5*time.Second {
		return nil, errors.New("too little of the lease left for this step")
	}
	return append(state, " and second half"...), nil
}
