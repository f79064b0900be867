package worklease_test

import (
	"context"
	"testing"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
)

func BenchmarkAcquireRelease(b *testing.B) {
	l := benchLease(b)
	ctx := cancellable(b)
	b.ReportAllocs()
	for b.Loop() {
		token, err := l.Acquire(ctx, "work")
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(ctx, token, worklease.ExitFinished); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckpoint1KB(b *testing.B) {
	l := benchLease(b)
	ctx := cancellable(b)
	token, err := l.Acquire(ctx, "work")
	if err != nil {
		b.Fatal(err)
	}
	state := make([]byte, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Checkpoint(ctx, token, state); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	l := benchLease(b)
	ctx := cancellable(b)
	token, err := l.Acquire(ctx, "work")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Renew(ctx, token); err != nil {
			b.Fatal(err)
		}
	}
}

func benchLease(b *testing.B) worklease.Lease {
	b.Helper()
	l, err := worklease.New(memory.New(), worklease.Config{TTL: time.Hour, HolderID: "a"})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// cancellable is a context that can end, as a caller's does: calls are then made
// on a goroutine of their own.
func cancellable(b *testing.B) context.Context {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	return ctx
}
