package pool_test

import (
	"context"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/pool"
)

var _ = Describe("A work function that does not return", func() {
	const wind = 5 * time.Second

	// falls runs a pool of four, of which one falls after a second, on a
	// goroutine of its own, and returns what Run panicked with.
	falls := func(s *site, fall func()) (raised any, returned bool) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { raised = recover() }()
			_ = s.pool(func(ctx context.Context, id string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
				if id != "b" {
					return stubborn(wind)(ctx, id, token, prior)
				}
				<-time.After(time.Second)
				fall()
				return nil, nil
			}).Run(bg)
			returned = true
		}()
		<-over
		return raised, returned
	}

	DescribeTable("is told at once; the others end cleanly, and its own lease lapses",
		func(fall func(), check func(raised any, told error)) {
			bubble.Run(func() {
				s := newSite("a", "b", "c", "d")
				begin := time.Now()
				raised, returned := falls(s, fall)
				Expect(returned).To(BeFalse())
				Expect(time.Since(begin)).To(Equal(time.Second + wind))

				Expect(s.told.names()).To(Equal([]string{"Dead"}))
				dead := s.told.of("Dead")[0]
				Expect(dead.ID).To(Equal("b"))
				Expect(dead.At).To(Equal(begin.Add(time.Second)))
				check(raised, dead.Event.(pool.SlotDeadEvent).Err)

				for _, id := range []string{"a", "c", "d"} {
					Expect(s.left(id)).To(Equal(worklease.Checkpoint{
						State: []byte("state"), PrevExit: worklease.ExitAbandoned, PrevHolderID: "us",
					}))
				}
				Expect(s.holder("next").Acquire(bg, "b")).Error().To(MatchError(worklease.ErrLeaseHeld))
				<-time.After(ttl)
				Expect(s.left("b").PrevExit).To(Equal(worklease.ExitExpired))
			})
		},
		Entry("14d: a panic comes out of Run on the caller's goroutine, with value and stack",
			func() { panic(errWork) }, func(raised any, told error) {
				Expect(raised).To(BeIdenticalTo(told))
				Expect(told).To(MatchError(errWork), "the value that was an error is reachable")
				Expect(told.Error()).To(And(ContainSubstring(errWork.Error()), ContainSubstring("panic_test.go")))
			}),
		Entry("14d: a panic with something else than an error likewise",
			func() { panic("boom") }, func(raised any, told error) {
				Expect(raised).To(BeIdenticalTo(told))
				Expect(told).To(MatchError(And(ContainSubstring("boom"), ContainSubstring("panic_test.go"))))
			}),
		Entry("14d: a Goexit ends the goroutine of Run",
			runtime.Goexit, func(raised any, told error) {
				Expect(raised).To(BeNil())
				Expect(told).To(MatchError(ContainSubstring("Goexit")))
			}),
	)

	It("leaves a pool that can run again", func() {
		bubble.Run(func() {
			s := newSite("a")
			first := true
			p := s.pool(func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				if first {
					first = false
					panic(errWork)
				}
				return nil, worklease.ErrRetire
			})
			Expect(func() { _ = p.Run(bg) }).To(PanicWith(MatchError(errWork)))
			Expect(p.ActiveSlots()).To(BeEmpty())
			Expect(p.Run(bg)).To(Succeed())
		})
	})

	It("does not hold the shutdown up where it was the observer that panicked", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			s := newSite("a", "b")
			s.faults.On(inject.Release, inject.Hang(released))
			s.cfg.CleanupTimeout = 3 * time.Second
			s.cfg.Observer = rude{}
			p := s.pool(wait)
			begin := time.Now()
			Expect(func() { _ = p.Run(bg) }).To(PanicWith(MatchError(errWork)))
			Expect(time.Since(begin)).To(Equal(time.Second + 3*time.Second))
			Expect(p.ActiveSlots()).To(BeEmpty())
			close(released)
		})
	})
})

// rude is an observer that panics when slot a enters its function.
type rude struct{ pool.NoopObserver }

func (rude) OnSlotAcquired(_ context.Context, e pool.SlotAcquiredEvent) {
	if e.WorkID == "a" {
		<-time.After(time.Second)
		panic(errWork)
	}
}
