package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/worker"
)

func BenchmarkRun(b *testing.B) { benchmarkRun(b, 0) }

func BenchmarkRunWith10Checkpoints(b *testing.B) { benchmarkRun(b, 10) }

func benchmarkRun(b *testing.B, checkpoints int) {
	b.Helper()
	l, err := worklease.New(memory.New(), worklease.Config{TTL: time.Hour, HolderID: "a"})
	if err != nil {
		b.Fatal(err)
	}
	state := make([]byte, 1024)
	r, err := worker.NewRunner(worker.RunnerConfig{
		Lease: l,
		WorkFn: func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			for range checkpoints {
				if err := l.Checkpoint(ctx, token, state); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Run(ctx, "work"); err != nil {
			b.Fatal(err)
		}
	}
}
