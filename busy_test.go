package worklease_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
)

var _ = Describe("A busy process", func() {
	It("2c: with one processor and a work function that never waits the lease is not lost", func(ctx SpecContext) {
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		child := exec.CommandContext(ctx, self)
		child.Env = append(os.Environ(), childEnv+"=1", "GOMAXPROCS=1")
		out, err := child.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	}, SpecTimeout(time.Minute))
})

// holdWhileBusy is the other process: it holds a lease and the processor for five
// TTLs.
func holdWhileBusy() error {
	const short = 2 * time.Second
	ctx := context.Background()
	lease, err := worklease.New(memory.New(), worklease.Config{TTL: short, HolderID: "busy"})
	if err != nil {
		return err
	}
	token, err := lease.Acquire(ctx, "w")
	if err != nil {
		return err
	}
	renewCtx, stop := lease.StartRenewal(ctx, token)
	defer stop()
	for start := time.Now(); time.Since(start) < 5*short; {
		if err := context.Cause(renewCtx); err != nil {
			return fmt.Errorf("lost after %v: %w", time.Since(start), err)
		}
	}
	return lease.Release(ctx, token, worklease.ExitFinished)
}
