package pool_test

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/pool"
)

// stubborn works on for a while after its ctx has ended.
func stubborn(d time.Duration) pool.WorkFn {
	return func(ctx context.Context, _ string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
		<-ctx.Done()
		<-time.After(d)
		return []byte("state"), ctx.Err()
	}
}

var _ = Describe("Shutdown", func() {
	It("14a: waits for functions that ignore ctx, stores and releases, and enters no other", func() {
		bubble.Run(func() {
			s := newSite(numbered(8)...)
			// Two slots are still acquiring when ctx ends.
			s.faults.On(inject.Acquire, func(ctx context.Context, call inject.Call) error {
				if call.N > 6 {
					return inject.Slow(500*time.Millisecond)(ctx, call)
				}
				return call.Do(ctx)
			})
			r := start(s.pool(stubborn(time.Second)))
			took, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(Equal(time.Second))
			Expect(s.told.of("Acquired")).To(HaveLen(6))
			Expect(s.told.names()).To(BeEmpty())

			s.faults.On(inject.Acquire, nil)
			exits := map[worklease.ExitMode]int{}
			for _, id := range numbered(8) {
				prior := s.left(id)
				exits[prior.PrevExit]++
				if prior.PrevExit == worklease.ExitAbandoned {
					Expect(prior.State).To(Equal([]byte("state")))
				}
			}
			Expect(exits).To(Equal(map[worklease.ExitMode]int{worklease.ExitAbandoned: 6, worklease.ExitNone: 2}))
		})
	})

	It("renews until the last function has returned", func() {
		bubble.Run(func() {
			s := newSite("a", "b")
			r := start(s.pool(stubborn(3 * ttl)))
			took, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(Equal(3 * ttl))
			Expect(s.left("a").PrevExit).To(Equal(worklease.ExitAbandoned))
			Expect(s.left("b").PrevExit).To(Equal(worklease.ExitAbandoned))
		})
	})

	It("has one cleanup deadline, from the last function's return, and leaves what is queued then to lapse", func() {
		bubble.Run(func() {
			const slots, wind, bound = 100, time.Second, 3 * time.Second
			s := newSite(numbered(slots)...)
			s.cfg.MaxCalls = 1
			s.cfg.CleanupTimeout = bound
			s.faults.On(inject.Release, inject.Late(99*time.Millisecond))
			var n atomic.Int32
			r := start(s.pool(func(ctx context.Context, _ string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				last := n.Add(1) == slots
				<-ctx.Done()
				if last {
					<-time.After(wind)
				}
				return nil, ctx.Err()
			}))
			took, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(Equal(wind + bound))

			Expect(s.faults.Count(inject.Release)).To(Equal(41), "to wait for one's turn is no reason to write twice")
			<-time.After(time.Second) // for the release that was given up at the bound
			free := 0
			for _, id := range numbered(slots) {
				if _, err := s.holder("next").Acquire(bg, id); err == nil {
					free++
				}
			}
			Expect(free).To(Equal(41), "4 s at 99 ms each, and the one that was under way")
		})
	})

	It("bounds each slot's final writes by themselves while the pool works", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			s := newSite("a", "b")
			s.cfg.CleanupTimeout = 3 * time.Second
			s.faults.On(inject.Release, inject.Times(2, inject.Hang(released)))
			begin := time.Now()
			r := start(s.pool(func(ctx context.Context, id string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
				if id == "a" {
					return nil, nil
				}
				return wait(ctx, id, token, prior)
			}))
			<-time.After(4 * time.Second)
			Expect(s.told.of("Backoff")).To(HaveExactElements(And(
				HaveField("At", begin.Add(3*time.Second)),
				HaveField("Event", HaveField("Err", MatchError(context.DeadlineExceeded))))))
			close(released)
			_, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
		})
	})

	DescribeTable("returns within CleanupTimeout of the last return though the backend hangs and ignores ctx",
		func(wind, want time.Duration, hanging ...inject.Op) {
			bubble.Run(func() {
				released := make(chan struct{})
				s := newSite(numbered(40)...)
				s.cfg.CleanupTimeout = 3 * time.Second
				r := start(s.pool(stubborn(wind)))
				Expect(s.told.of("Acquired")).To(HaveLen(40))
				for _, op := range hanging {
					s.faults.On(op, inject.Hang(released))
				}
				took, err := r.stop()
				Expect(err).NotTo(HaveOccurred())
				Expect(took).To(Equal(want))
				close(released)
			})
		},
		Entry("in Checkpoint", time.Second, 4*time.Second, inject.Checkpoint),
		Entry("in Release", time.Second, 4*time.Second, inject.Release),
		Entry("in everything, windows running out meanwhile", 2*ttl, 2*ttl,
			inject.Checkpoint, inject.Release, inject.Renew, inject.Restore, inject.Forget),
	)

	It("returns at once where all slots are acquiring and the backend hangs", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			s := newSite(numbered(40)...)
			s.faults.On(inject.Acquire, inject.Hang(released))
			r := start(s.pool(wait))
			took, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(BeZero())
			close(released)
			<-time.After(time.Second)
			for _, id := range numbered(16) { // MaxCalls of them had been sent
				Expect(s.left(id).PrevExit).To(Equal(worklease.ExitNone))
			}
		})
	})

	It("returns within CleanupTimeout where reading the checkpoint hangs", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			s := newSite(numbered(4)...)
			s.cfg.CleanupTimeout = 3 * time.Second
			s.faults.On(inject.ReadCheckpoint, inject.Hang(released))
			s.faults.On(inject.Restore, inject.Hang(released))
			r := start(s.pool(wait))
			took, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(BeNumerically("<=", 3*time.Second))
			Expect(s.told.all()).To(BeEmpty())
			close(released)
		})
	})

	It("ends slots that wait at once", func() {
		bubble.Run(func() {
			s := newSite("held", "failed", "finished")
			Expect(s.holder("them").Acquire(bg, "held")).Error().NotTo(HaveOccurred())
			r := start(s.pool(func(_ context.Context, id string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				if id == "failed" {
					return nil, errWork
				}
				return nil, nil
			}))
			took, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(BeZero())
		})
	})
})
