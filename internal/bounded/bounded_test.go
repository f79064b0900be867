package bounded_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/bounded"
	"github.com/aetomala/worklease/internal/testkit/bubble"
)

var errNet = errors.New("connection reset")

// deaf returns a function that ignores its context for d.
func deaf(d time.Duration) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		bubble.Sleep(d)
		return 7, errNet
	}
}

var _ = Describe("Call", func() {
	It("returns what the function returned", func(ctx SpecContext) {
		n, err := bounded.Call(ctx, deaf(0))
		Expect(n).To(Equal(7))
		Expect(err).To(MatchError(errNet))
	})

	It("starts nothing when ctx is done", func(ctx SpecContext) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		started := false
		_, err := bounded.Call(done, func(context.Context) (int, error) {
			started = true
			return 0, nil
		})
		Expect(err).To(MatchError(context.Canceled))
		Expect(started).To(BeFalse())
	})

	It("waits as long as it takes when ctx cannot end", func() {
		bubble.Run(func() {
			start := time.Now()
			_, err := bounded.Call(context.Background(), deaf(time.Hour))
			Expect(err).To(MatchError(errNet))
			Expect(time.Since(start)).To(Equal(time.Hour))
		})
	})

	It("leaves a function that ignores its context when ctx ends, and drops its result", func() {
		bubble.Run(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			start := time.Now()
			n, err := bounded.Call(ctx, deaf(time.Minute))
			Expect(time.Since(start)).To(Equal(time.Second))
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(err).NotTo(MatchError(errNet))
			Expect(n).To(BeZero())
		})
	})
})

var _ = Describe("CallWithGrace", func() {
	DescribeTable("waits beyond ctx no longer than the grace", func(takes, waits time.Duration, want error) {
		bubble.Run(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			start := time.Now()
			_, err := bounded.CallWithGrace(ctx, time.Second, deaf(takes))
			Expect(err).To(MatchError(want))
			Expect(time.Since(start)).To(Equal(waits))
		})
	},
		Entry("an answer before the end of ctx", 900*time.Millisecond, 900*time.Millisecond, errNet),
		Entry("an answer within the grace", 1900*time.Millisecond, 1900*time.Millisecond, errNet),
		Entry("an answer after it", time.Minute, 2*time.Second, context.DeadlineExceeded),
	)
})

var _ = Describe("Do", func() {
	It("is Call without a value", func(ctx SpecContext) {
		Expect(bounded.Do(ctx, func(context.Context) error { return errNet })).To(MatchError(errNet))
		Expect(bounded.Do(ctx, func(context.Context) error { return nil })).To(Succeed())
	})
})
