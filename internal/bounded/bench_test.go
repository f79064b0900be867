package bounded_test

import (
	"context"
	"testing"

	"github.com/aetomala/worklease/internal/bounded"
)

// BenchmarkDo is a call that goes as deep as one into a driver does.
func BenchmarkDo(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if err := bounded.Do(ctx, func(context.Context) error { deep(24); return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

//go:noinline
func deep(frames int) byte {
	var local [160]byte
	if frames > 0 {
		local[frames] = deep(frames - 1)
	}
	return local[frames/2]
}
