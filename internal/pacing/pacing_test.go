package pacing_test

import (
	"context"
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/testkit/bubble"
)

// draws is how often a drawn wait is drawn: enough to fill its whole range.
const draws = 10_000

var _ = Describe("Sleep", func() {
	It("waits for its time", func() {
		bubble.Run(func() {
			start := time.Now()
			Expect(pacing.Sleep(context.Background(), time.Hour)).To(Succeed())
			Expect(time.Since(start)).To(Equal(time.Hour))
		})
	})

	It("returns the context's error at the moment when it ends", func() {
		bubble.Run(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			start := time.Now()
			Expect(pacing.Sleep(ctx, time.Hour)).To(MatchError(context.DeadlineExceeded))
			Expect(time.Since(start)).To(Equal(time.Second))
		})
	})

	It("prefers the error of a context that is done to a wait of nothing", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 100 {
			Expect(pacing.Sleep(ctx, 0)).To(MatchError(context.Canceled))
		}
	})
})

var _ = Describe("Poll", func() {
	It("draws evenly from half to the whole of the interval", func() {
		low, high, upper := time.Duration(math.MaxInt64), time.Duration(0), 0
		for range draws {
			d := pacing.Poll(time.Second)
			low, high = min(low, d), max(high, d)
			if d > 750*time.Millisecond {
				upper++
			}
		}
		Expect(low).To(BeNumerically("~", 505*time.Millisecond, 5*time.Millisecond))
		Expect(high).To(BeNumerically("~", 995*time.Millisecond, 5*time.Millisecond))
		Expect(upper).To(BeNumerically("~", draws/2, draws/20))
	})

	It("takes the shortest interval", func() {
		Expect(pacing.Poll(1)).To(BeNumerically("<=", 1))
	})
})

var _ = Describe("Jittered", func() {
	It("adds up to its share and never takes away", func() {
		low, high := time.Duration(math.MaxInt64), time.Duration(0)
		for range draws {
			d := pacing.Jittered(time.Second, 0.2)
			low, high = min(low, d), max(high, d)
		}
		Expect(low).To(BeNumerically("~", 1002*time.Millisecond, 2*time.Millisecond))
		Expect(high).To(BeNumerically("~", 1198*time.Millisecond, 2*time.Millisecond))
	})

	It("does not overflow where the wait is meant to have no end", func() {
		for range draws {
			Expect(pacing.Jittered(math.MaxInt64-1, 0.2)).To(BeNumerically(">=", int64(math.MaxInt64-1)))
		}
	})
})

var _ = Describe("Backoff", func() {
	It("doubles from Initial up to Max", func() {
		b := pacing.Backoff{Initial: 100 * time.Millisecond, Max: time.Second}
		var waits []time.Duration
		for n := 1; n <= 6; n++ {
			waits = append(waits, b.Wait(n)/time.Millisecond)
		}
		Expect(waits).To(Equal([]time.Duration{100, 200, 400, 800, 1000, 1000}))
	})

	It("spreads each wait by its jitter in either direction, never above Max", func() {
		b := pacing.Backoff{Initial: time.Second, Max: 1100 * time.Millisecond, Jitter: 0.2}
		low, high := time.Duration(math.MaxInt64), time.Duration(0)
		for range draws {
			d := b.Wait(1)
			low, high = min(low, d), max(high, d)
		}
		Expect(low).To(BeNumerically("~", 802*time.Millisecond, 2*time.Millisecond))
		Expect(high).To(Equal(b.Max))
	})

	It("does not overflow after any number of failures", func() {
		b := pacing.Backoff{Initial: 1, Max: math.MaxInt64}.Clamped()
		Expect(b.Wait(math.MaxInt)).To(Equal(b.Max))
	})

	DescribeTable("is clamped, never refused", func(given, want pacing.Backoff) {
		Expect(given.Clamped()).To(Equal(want))
	},
		Entry("what is sensible stays",
			pacing.Backoff{Initial: time.Second, Max: time.Minute, Jitter: 0.5},
			pacing.Backoff{Initial: time.Second, Max: time.Minute, Jitter: 0.5}),
		Entry("zero durations are the defaults, zero jitter is none",
			pacing.Backoff{},
			pacing.Backoff{Initial: pacing.DefaultInitial, Max: pacing.DefaultMax}),
		Entry("Max below Initial",
			pacing.Backoff{Initial: time.Minute, Max: time.Second},
			pacing.Backoff{Initial: time.Minute, Max: time.Minute}),
		Entry("jitter above one and endless durations",
			pacing.Backoff{Initial: math.MaxInt64, Max: math.MaxInt64, Jitter: math.Inf(1)},
			pacing.Backoff{Initial: 24 * time.Hour, Max: 24 * time.Hour, Jitter: 1}),
		Entry("jitter that is no number",
			pacing.Backoff{Initial: 1, Max: 1, Jitter: math.NaN()},
			pacing.Backoff{Initial: 1, Max: 1}),
		Entry("what is below zero",
			pacing.Backoff{Initial: -1, Max: -1, Jitter: -1},
			pacing.Backoff{Initial: pacing.DefaultInitial, Max: pacing.DefaultMax}),
	)
})
