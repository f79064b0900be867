//go:build !race

package baseline_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
)

// runs is over how many runs allocations are averaged.
const runs = 2000

// The race detector allocates by itself, hence the build tag.
var _ = Describe("Allocations", func() {
	for _, o := range append(core(), inMemory()...) {
		It("of "+o.name+" are as stored", func(spec SpecContext) {
			// As a caller's context, this one can end.
			ctx, cancel := context.WithCancel(spec)
			defer cancel()
			allocations := testing.AllocsPerRun(runs, func() {
				if err := o.do(ctx); err != nil {
					Fail(err.Error())
				}
			})
			expect("allocations: "+o.name, int(allocations))
		}, SpecTimeout(bound))
	}
})

// core are the operations of a Lease and of a Runner, on the memory backend.
func core() []operation {
	b := memory.New()
	l, other := lease(b, "a"), lease(b, "b")
	state := make([]byte, 1024)
	held := must(l.Acquire(context.Background(), "held"))
	return []operation{
		{"Lease.Acquire and Release", func(ctx context.Context) error {
			token, err := l.Acquire(ctx, "free")
			if err != nil {
				return err
			}
			return l.Release(ctx, token, worklease.ExitFinished)
		}},
		{"Lease.Acquire where it is held", func(ctx context.Context) error {
			_, err := other.Acquire(ctx, "held")
			return unless(err, worklease.ErrLeaseHeld)
		}},
		{"Lease.Renew", func(ctx context.Context) error { return l.Renew(ctx, held) }},
		{"Lease.Checkpoint of 1 KB", func(ctx context.Context) error { return l.Checkpoint(ctx, held, state) }},
		{"Lease.ReadCheckpoint of 1 KB", func(ctx context.Context) error {
			_, err := l.ReadCheckpoint(ctx, held)
			return err
		}},
		{"Runner.Run", run(l, 0)},
		{"Runner.Run with 10 checkpoints", run(l, 10)},
	}
}

// inMemory are the operations of the memory backend.
func inMemory() []operation {
	b := memory.New()
	state := make([]byte, 1024)
	held := must(b.Acquire(context.Background(), "held", "a", ttl))
	return []operation{
		{"memory, Acquire and Release", func(ctx context.Context) error {
			rec, err := b.Acquire(ctx, "free", "a", ttl)
			if err != nil {
				return err
			}
			return b.Release(ctx, rec, backend.ExitFinished)
		}},
		{"memory, Acquire where it is held", func(ctx context.Context) error {
			_, err := b.Acquire(ctx, "held", "b", ttl)
			return unless(err, backend.ErrLeaseHeld)
		}},
		{"memory, Renew", func(ctx context.Context) error { return b.Renew(ctx, held, ttl) }},
		{"memory, Checkpoint of 1 KB", func(ctx context.Context) error { return b.Checkpoint(ctx, held, state, ttl) }},
		{"memory, ReadCheckpoint of 1 KB", func(ctx context.Context) error {
			_, err := b.ReadCheckpoint(ctx, held)
			return err
		}},
	}
}
