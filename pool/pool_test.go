package pool_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/pool"
)

// numbered returns n work IDs.
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = "shard-" + strconv.Itoa(i)
	}
	return ids
}

// started is a Run that goes on in the bubble.
type started struct {
	cancel context.CancelFunc
	result chan error
}

// start runs p and returns when all its goroutines wait.
func start(p *pool.Pool) started {
	ctx, cancel := context.WithCancel(bg)
	r := started{cancel, make(chan error, 1)}
	go func() { r.result <- p.Run(ctx) }()
	synctest.Wait()
	return r
}

// stop ends it and returns how long that took, and its result.
func (r started) stop() (time.Duration, error) {
	begin := time.Now()
	r.cancel()
	err := <-r.result
	return time.Since(begin), err
}

// wait works until its ctx ends.
func wait(ctx context.Context, _ string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

var _ = Describe("Run", func() {
	It("hands each slot its own id, a token of it, and what was left", func() {
		bubble.Run(func() {
			s := newSite("a", "b")
			for _, id := range []string{"a", "b"} {
				before := s.holder("before")
				token, err := before.Acquire(bg, id)
				Expect(err).NotTo(HaveOccurred())
				Expect(before.Checkpoint(bg, token, []byte("of "+id))).To(Succeed())
				Expect(before.Release(bg, token, worklease.ExitAbandoned)).To(Succeed())
			}
			Expect(s.pool(func(_ context.Context, id string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
				defer GinkgoRecover()
				Expect(token.WorkID()).To(Equal(id))
				Expect(token.HolderID()).To(Equal("us"))
				Expect(prior).To(Equal(worklease.Checkpoint{
					State: []byte("of " + id), PrevExit: worklease.ExitAbandoned, PrevHolderID: "before",
				}))
				return []byte("done " + id), worklease.ErrRetire
			}).Run(bg)).To(Succeed())
			for _, id := range []string{"a", "b"} {
				Expect(s.left(id)).To(Equal(worklease.Checkpoint{
					State: []byte("done " + id), PrevExit: worklease.ExitRetired, PrevHolderID: "us",
				}))
			}
		})
	})

	It("starts a pool of four slots at once", func() {
		bubble.Run(func() {
			s := newSite(numbered(4)...)
			begin := time.Now()
			r := start(s.pool(wait))
			Expect(s.told.of("Acquired")).To(HaveLen(4))
			Expect(s.told.of("Acquired")).To(HaveEach(HaveField("At", Equal(begin))))
			_, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
		})
	})

	It("starts as many slots at once as MaxCalls allows, and the rest as calls return", func() {
		bubble.Run(func() {
			s := newSite(numbered(5)...)
			s.cfg.MaxCalls = 2
			s.faults.On(inject.Acquire, inject.Slow(time.Second))
			begin := time.Now()
			r := start(s.pool(wait))
			<-time.After(10 * time.Second)
			var after []time.Duration
			for _, call := range s.faults.Calls(inject.Acquire) {
				after = append(after, call.Start.Sub(begin))
			}
			Expect(after).To(Equal([]time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}))
			_, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
		})
	})

	DescribeTable("never has more than MaxCalls calls of slots out", func(configured, most int) {
		bubble.Run(func() {
			s := newSite(numbered(60)...)
			s.cfg.MaxCalls = configured
			var m meter
			for _, op := range []inject.Op{inject.Acquire, inject.ReadCheckpoint, inject.Checkpoint, inject.Release} {
				s.faults.On(op, m.measure)
			}
			r := start(s.pool(func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				<-time.After(50 * time.Millisecond)
				return []byte("state"), nil
			}))
			<-time.After(time.Minute)
			Expect(m.peak()).To(Equal(most))
			_, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
		})
	},
		Entry("one", 1, 1),
		Entry("seven", 7, 7),
		Entry("16 unless told otherwise", 0, 16),
	)

	It("lets final writes go before acquisitions", func() {
		bubble.Run(func() {
			s := newSite(numbered(10)...)
			s.cfg.MaxCalls = 1
			var (
				mu    sync.Mutex
				order []inject.Op
			)
			for _, op := range []inject.Op{inject.Acquire, inject.Release} {
				s.faults.On(op, func(ctx context.Context, call inject.Call) error {
					mu.Lock()
					order = append(order, op)
					mu.Unlock()
					<-time.After(time.Second)
					return call.Do(ctx)
				})
			}
			r := start(s.pool(func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				return nil, worklease.ErrRetire
			}))
			Expect(<-r.result).To(Succeed())
			// The release of the first slot waits for the one call that was let in
			// when its own acquisition made room, and for no other.
			pair := []inject.Op{inject.Acquire, inject.Acquire, inject.Release, inject.Release}
			Expect(order).To(Equal(slices.Repeat(pair, 5)))
		})
	})

	It("neither counts nor holds up renewals and the function's own calls", func() {
		bubble.Run(func() {
			s := newSite("a", "b")
			s.cfg.MaxCalls = 1
			released := make(chan struct{})
			s.faults.On(inject.Acquire, func(ctx context.Context, call inject.Call) error {
				if call.N == 2 {
					<-released
				}
				return call.Do(ctx)
			})
			lease := s.holder("us")
			p, err := pool.New(lease, s.cfg, func(ctx context.Context, _ string, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				defer GinkgoRecover()
				Expect(lease.Checkpoint(ctx, token, []byte("early"))).To(Succeed())
				<-ctx.Done()
				return nil, ctx.Err()
			})
			Expect(err).NotTo(HaveOccurred())
			r := start(p)
			<-time.After(ttl - 1)
			Expect(s.faults.Count(inject.Checkpoint)).To(Equal(1))
			Expect(s.faults.Count(inject.Renew)).To(Equal(1))
			close(released)
			_, err = r.stop()
			Expect(err).NotTo(HaveOccurred())
		})
	})

	It("is refused while it runs, and possible again afterwards", func() {
		bubble.Run(func() {
			s := newSite("a")
			p := s.pool(wait)
			r := start(p)
			Expect(p.Run(bg)).To(MatchError(ContainSubstring("already running")))
			Expect(p.ActiveSlots()).To(Equal([]string{"a"}), "the first goes on")
			_, err := r.stop()
			Expect(err).NotTo(HaveOccurred())

			r = start(p)
			Expect(p.ActiveSlots()).To(Equal([]string{"a"}))
			_, err = r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(s.told.of("Acquired")).To(HaveLen(2))
		})
	})

	It("enters nothing when ctx is done at the call", func() {
		bubble.Run(func() {
			s := newSite("a", "b")
			ctx, cancel := context.WithCancel(bg)
			cancel()
			Expect(s.pool(wait).Run(ctx)).To(Succeed())
			Expect(s.told.all()).To(BeEmpty())
			Expect(s.faults.Count(inject.Acquire)).To(BeZero())
		})
	})

	DescribeTable("returns by how its slots ended", func(results map[string]error, want error) {
		bubble.Run(func() {
			s := newSite("a", "b", "c")
			ctx, cancel := context.WithTimeout(bg, time.Hour)
			defer cancel()
			err := s.pool(func(ctx context.Context, id string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				if results[id] == nil {
					return wait(ctx, id, worklease.Token{}, worklease.Checkpoint{})
				}
				return nil, results[id]
			}).Run(ctx)
			if want == nil {
				Expect(err).NotTo(HaveOccurred())
				return
			}
			Expect(err).To(MatchError(want))
		})
	},
		Entry("ErrAllSlotsDead when all died",
			map[string]error{"a": pool.Permanent(errWork), "b": pool.Permanent(errNet), "c": spent{}}, pool.ErrAllSlotsDead),
		Entry("nil when one retired",
			map[string]error{"a": pool.Permanent(errWork), "b": worklease.ErrRetire, "c": pool.Permanent(errWork)}, nil),
		Entry("nil when ctx ended one of them",
			map[string]error{"a": pool.Permanent(errWork), "b": pool.Permanent(errWork)}, nil),
	)

	It("keeps a dead slot from stopping the others", func() {
		bubble.Run(func() {
			s := newSite("a", "b")
			p := s.pool(func(ctx context.Context, id string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
				if id == "a" {
					return nil, pool.Permanent(errWork)
				}
				return wait(ctx, id, token, prior)
			})
			r := start(p)
			<-time.After(time.Hour)
			Expect(p.ActiveSlots()).To(Equal([]string{"b"}))
			Expect(s.told.of("Dead")).To(HaveLen(1))
			_, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
		})
	})

	It("lets another pool take over what one leaves", func() {
		bubble.Run(func() {
			s := newSite(numbered(6)...)
			ours := start(s.pool(wait))
			theirs, err := pool.New(s.holder("them"), s.cfg, wait)
			Expect(err).NotTo(HaveOccurred())
			other := start(theirs)
			Expect(theirs.ActiveSlots()).To(BeEmpty())

			_, err = ours.stop()
			Expect(err).NotTo(HaveOccurred())
			<-time.After(idle + idle/5)
			Expect(theirs.ActiveSlots()).To(Equal(numbered(6)))
			_, err = other.stop()
			Expect(err).NotTo(HaveOccurred())
		})
	})
})

var _ = Describe("ActiveSlots", func() {
	It("lists the ids inside their work function, sorted, and no others", func() {
		bubble.Run(func() {
			s := newSite("c", "a", "held", "b")
			Expect(s.holder("them").Acquire(bg, "held")).Error().NotTo(HaveOccurred())
			s.faults.On(inject.Checkpoint, inject.Slow(2*time.Second))
			p := s.pool(func(ctx context.Context, id string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				if id == "b" {
					<-time.After(time.Second)
					return []byte("state"), worklease.ErrRetire
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
			Expect(p.ActiveSlots()).To(BeEmpty())
			r := start(p)
			Expect(p.ActiveSlots()).To(Equal([]string{"a", "b", "c"}))
			<-time.After(2 * time.Second)
			Expect(p.ActiveSlots()).To(Equal([]string{"a", "c"}), "b stores its state")
			_, err := r.stop()
			Expect(err).NotTo(HaveOccurred())
			Expect(p.ActiveSlots()).To(BeEmpty())
		})
	})
})

var _ = Describe("Observer", func() {
	It("is told with Run's ctx, and of a failure with its error and the wait", func() {
		bubble.Run(func() {
			type key struct{}
			s := newSite("a")
			ctx, cancel := context.WithTimeout(context.WithValue(bg, key{}, "mine"), time.Second)
			defer cancel()
			err := s.pool(func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				return nil, errWork
			}).Run(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.told.all()).To(HaveEach(HaveField("Ctx", BeIdenticalTo(ctx))))
			Expect(s.told.of("Acquired")).To(HaveExactElements(HaveField("Event", pool.SlotAcquiredEvent{WorkID: "a"})))
			Expect(s.told.of("Backoff")).To(HaveExactElements(HaveField("Event", And(
				HaveField("WorkID", "a"), HaveField("Err", MatchError(errWork)), HaveField("Duration", backoff)))))
		})
	})

	It("may be left out, and NoopObserver takes every event", func() {
		bubble.Run(func() {
			for _, observer := range []pool.Observer{nil, pool.NoopObserver{}} {
				s := newSite("dead", "retired", "lost", "failed")
				s.cfg.Observer = observer
				ctx, cancel := context.WithTimeout(bg, time.Minute)
				Expect(s.pool(func(_ context.Context, id string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
					return nil, map[string]error{
						"dead": pool.Permanent(errWork), "retired": worklease.ErrRetire, "lost": worklease.ErrFenced, "failed": errWork,
					}[id]
				}).Run(ctx)).To(Succeed())
				cancel()
				Expect(s.left("retired").PrevExit).To(Equal(worklease.ExitRetired))
			}
		})
	})

	It("sees a dead slot's error", func() {
		bubble.Run(func() {
			s := newSite("a")
			Expect(s.pool(func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				return nil, fmt.Errorf("step 3: %w", pool.Permanent(errWork))
			}).Run(bg)).To(MatchError(pool.ErrAllSlotsDead))
			Expect(s.told.of("Dead")).To(HaveExactElements(HaveField("Event", And(
				HaveField("WorkID", "a"), HaveField("Err", MatchError(errWork))))))
		})
	})
})

// meter measures how many calls are out at once.
type meter struct {
	mu        sync.Mutex
	now, most int
}

func (m *meter) measure(ctx context.Context, call inject.Call) error {
	m.add(1)
	defer m.add(-1)
	<-time.After(10 * time.Millisecond)
	return call.Do(ctx)
}

func (m *meter) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now += n
	m.most = max(m.most, m.now)
}

func (m *meter) peak() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}
