// Quickstart runs the same work twice on the in-memory backend. The second run
// reads what the first one left behind.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/worker"
)

func main() {
	lease, err := worklease.New(memory.New(), worklease.Config{
		TTL:      30 * time.Second, // how long a crash goes unnoticed
		HolderID: "worker-1",       // unique for each process
	})
	if err != nil {
		log.Fatal(err)
	}
	runner, err := worker.NewRunner(worker.RunnerConfig{Lease: lease, WorkFn: bill})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		if err := runner.Run(context.Background(), "billing-run-2026-10"); err != nil {
			log.Fatal(err)
		}
	}
}

// bill is the work. What it returns is what the next holder finds.
func bill(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
	fmt.Printf("previous exit: %s, saved state: %q\n", prior.PrevExit, prior.State)
	return []byte("step 1 done"), nil
}
