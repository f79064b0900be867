package wake_test

import (
	"context"
	"fmt"
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/wake"
)

const poll = 5 * time.Second

var background = context.Background()

// heldFor is what an attempt ends with that finds a lease held.
func heldFor(d time.Duration) error {
	return fmt.Errorf("wrapped: %w", &backend.HeldError{HolderID: "a", Remaining: d})
}

var _ = Describe("Until", func() {
	DescribeTable("waits for the poll, unless the lease lapses before", func(refused error, least, most time.Duration, hinted bool) {
		bubble.Run(func() {
			low, high := time.Duration(math.MaxInt64), time.Duration(0)
			for range 1000 {
				start := time.Now()
				Expect(wake.Until(background, start.Add(poll), refused, nil)).To(Equal(hinted))
				low, high = min(low, time.Since(start)), max(high, time.Since(start))
			}
			Expect(low).To(And(BeNumerically(">=", least), BeNumerically("<=", least+(most-least)/10)))
			Expect(high).To(And(BeNumerically("<=", most), BeNumerically(">=", most-(most-least)/10)))
		})
	},
		Entry("held by who knows whom", backend.ErrLeaseHeld, poll, poll, false),
		Entry("held for as long as nobody knows", heldFor(0), poll, poll, false),
		Entry("held for longer", heldFor(time.Minute), poll, poll, false),
		Entry("held for ever", heldFor(math.MaxInt64), poll, poll, false),
		Entry("held for less: then, and up to 100 ms", heldFor(time.Second), time.Second, time.Second+100*time.Millisecond, true),
	)

	It("takes a poll that is due for a poll", func() {
		bubble.Run(func() {
			start := time.Now()
			Expect(wake.Until(background, start.Add(-time.Second), heldFor(time.Second), nil)).To(BeFalse())
			Expect(time.Since(start)).To(BeZero())
		})
	})

	DescribeTable("ends early when it is told, each of n within n ms", func(n int, most time.Duration) {
		bubble.Run(func() {
			free := make(chan int, 1)
			latest := time.Duration(0)
			for range 1000 {
				start := time.Now()
				time.AfterFunc(time.Second, func() { free <- n })
				Expect(wake.Until(background, start.Add(poll), backend.ErrLeaseHeld, free)).To(BeTrue())
				after := time.Since(start) - time.Second
				Expect(after).To(And(BeNumerically(">=", 0), BeNumerically("<=", most)))
				latest = max(latest, after)
			}
			Expect(latest).To(BeNumerically(">=", most*9/10))
		})
	},
		Entry("alone: at once", 1, time.Duration(0)),
		Entry("two", 2, 2*time.Millisecond),
		Entry("five hundred", 500, 500*time.Millisecond),
	)

	It("never lets one of a herd wait beyond the poll, nor beyond the lapse", func() {
		bubble.Run(func() {
			free := make(chan int, 1)
			for range 100 {
				start := time.Now()
				free <- 1_000_000
				_, err := wake.Until(background, start.Add(time.Millisecond), backend.ErrLeaseHeld, free)
				Expect(err).NotTo(HaveOccurred())
				Expect(time.Since(start)).To(BeNumerically("<=", time.Millisecond))

				start = time.Now()
				free <- 1_000_000
				Expect(wake.Until(background, start.Add(time.Hour), heldFor(time.Second), free)).To(BeTrue())
				Expect(time.Since(start)).To(BeNumerically("<=", 1100*time.Millisecond))
			}
		})
	})

	It("hears what was told before it was called", func() {
		bubble.Run(func() {
			free := make(chan int, 1)
			free <- 1
			start := time.Now()
			Expect(wake.Until(background, start.Add(poll), backend.ErrLeaseHeld, free)).To(BeTrue())
			Expect(time.Since(start)).To(BeZero())
		})
	})

	It("returns the context's error at the moment when it ends, and one that is done before all else", func() {
		bubble.Run(func() {
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			start := time.Now()
			Expect(wake.Until(ctx, start.Add(poll), backend.ErrLeaseHeld, nil)).Error().To(MatchError(context.DeadlineExceeded))
			Expect(time.Since(start)).To(Equal(time.Second))
			free := make(chan int, 1)
			free <- 1
			Expect(wake.Until(ctx, start, backend.ErrLeaseHeld, free)).Error().To(MatchError(context.DeadlineExceeded))
		})
	})
})

var _ = Describe("Board", func() {
	It("tells those who wait for the work ID how many they are, and nobody else", func() {
		var b wake.Board
		first, stopFirst := b.Subscribe("w")
		second, stopSecond := b.Subscribe("w")
		other, stopOther := b.Subscribe("v")
		defer stopFirst()
		defer stopSecond()
		defer stopOther()
		b.Wake("w")
		Expect(first).To(Receive(Equal(2)))
		Expect(second).To(Receive(Equal(2)))
		Expect(other).NotTo(Receive())
	})

	It("tells everybody, who then are as many as wait for anything", func() {
		var b wake.Board
		first, stopFirst := b.Subscribe("w")
		other, stopOther := b.Subscribe("v")
		defer stopFirst()
		defer stopOther()
		b.WakeAll()
		Expect(first).To(Receive(Equal(2)))
		Expect(other).To(Receive(Equal(2)))
	})

	It("does not wait for one who does not listen, and tells that one once", func() {
		var b wake.Board
		free, stop := b.Subscribe("w")
		defer stop()
		for range 3 {
			b.Wake("w")
		}
		Expect(free).To(Receive())
		Expect(free).NotTo(Receive())
	})

	It("forgets who has stopped, once or twice", func() {
		var b wake.Board
		free, stop := b.Subscribe("w")
		kept, stopKept := b.Subscribe("w")
		defer stopKept()
		stop()
		stop()
		b.Wake("w")
		Expect(free).NotTo(Receive())
		Expect(kept).To(Receive(Equal(1)))
	})

	It("knows for whom somebody waits", func() {
		var b wake.Board
		Expect(b.Waiting("w")).To(BeFalse())
		_, stop := b.Subscribe("w")
		Expect(b.Waiting("w")).To(BeTrue())
		Expect(b.Waiting("v")).To(BeFalse())
		stop()
		Expect(b.Waiting("w")).To(BeFalse())
	})
})
