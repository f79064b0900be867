package serverfaults

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/proxy"
	"github.com/aetomala/worklease/leader"
	"github.com/aetomala/worklease/pool"
	"github.com/aetomala/worklease/worker"
)

// wire is a way to the spec's database that can fall silent: nothing arrives,
// nothing ends.
type wire struct {
	dsn  string
	cut  func()
	heal func()
}

// swallowing is a network that drops every packet.
func (s *subject) swallowing() wire {
	GinkgoHelper()
	p := proxy.Start(address(s.dsn))
	return wire{through(s.dsn, p.Addr()), p.Swallow, func() { p.Pass(); p.Reset() }}
}

// frozen is a server whose processes are stopped where they stand.
func (s *subject) frozen() wire {
	DeferCleanup(s.server.Thaw)
	return wire{s.dsn, s.server.Freeze, s.server.Thaw}
}

func (s *subject) silenceSpecs() {
	DescribeTable("costs the lease at its window, though no call comes back",
		func(ctx SpecContext, newWire func() wire) {
			s.database()
			w := newWire()
			b := on(s.open(w.dsn))
			a := holder(b, "a", ttl)
			_, renewCtx := renewing(ctx, a, work)
			_, other := renewing(ctx, a, "other") // in the same batch
			w.cut()
			expectWindowCloses(renewCtx)
			expectWindowCloses(other)

			w.heal()
			left := waitFor(ctx, holder(b, "b", ttl), work)
			Expect(left.PrevHolderID).To(Equal("a"))
			Expect(left.PrevExit).To(Equal(worklease.ExitExpired))
		},
		Entry("1b: of a network that swallows packets", limit, s.swallowing),
		Entry("1b: of a server that is frozen", limit, s.frozen),
	)

	DescribeTable("holds up nothing that ends for longer than CleanupTimeout and half a second",
		func(ctx SpecContext, newWire func() wire) {
			s.database()
			w := newWire()
			db := s.open(w.dsn)
			acquire(ctx, holder(on(db), "z", time.Hour), "elsewhere")
			l := holder(on(db), "a", 10*time.Second)

			h := newHold(w.cut)
			var ends sync.WaitGroup
			for name, end := range endings(ctx, l) {
				h.expect()
				ends.Go(func() {
					defer GinkgoRecover()
					took := h.sinceLeft(func() { end(h.stay) })
					Expect(took).To(BeNumerically("<", cleanup+500*time.Millisecond), name)
					AddReportEntry(name, took.Round(time.Millisecond).String())
				})
			}
			h.leave()
			ends.Wait()
		},
		Entry("of a network that swallows packets", limit, s.swallowing),
		Entry("of a server that is frozen", limit, s.frozen),
	)
}

// cleanup is the CleanupTimeout of the endings.
const cleanup = time.Second

// renewOften has a renewal under way whenever the wire is cut.
var renewOften = []worklease.RenewalOption{worklease.WithRenewalInterval(50 * time.Millisecond)}

// endings are the ways to end what holds a lease. Each calls stay once, under
// the lease, and is to return soon after it.
func endings(ctx context.Context, l worklease.Lease) map[string]func(stay func()) {
	return map[string]func(func()){
		"stopRenewal": func(stay func()) {
			token := acquire(ctx, l, "stopped")
			_, stop := l.StartRenewal(context.WithoutCancel(ctx), token, renewOften...)
			stay()
			stop()
		},
		"Runner.Run": func(stay func()) {
			r, err := worker.NewRunner(worker.RunnerConfig{
				Lease: l, RenewalOptions: renewOften, CleanupTimeout: cleanup,
				WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					stay()
					return []byte("state"), nil
				},
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Run(ctx, "run")).To(MatchError(context.DeadlineExceeded))
		},
		"Elect": func(stay func()) {
			cfg := leader.Config{RenewalOptions: renewOften, CleanupTimeout: cleanup}
			Expect(leader.Elect(ctx, l, "elected", cfg, func(context.Context) error {
				stay()
				return nil
			})).To(MatchError(context.DeadlineExceeded))
		},
		"pool.Run": func(stay func()) {
			poolCtx, cancel := context.WithCancel(ctx)
			defer cancel()
			p, err := pool.New(l, pool.Config{
				WorkIDs:        []string{"pool-1", "pool-2", "pool-3", "elsewhere"},
				RenewalOptions: renewOften, CleanupTimeout: cleanup,
				IdleInterval: 50 * time.Millisecond, // an Acquire is under way, too
			}, func(slot context.Context, id string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				if id == "pool-1" {
					stay()
					cancel()
				}
				<-slot.Done()
				return []byte("state"), nil
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Run(poolCtx)).To(Succeed())
		},
	}
}

// hold keeps several functions inside until all have entered and the wire has
// been silent for a while, and then lets them all leave.
type hold struct {
	cut     func()
	entered sync.WaitGroup
	open    chan struct{}
	left    time.Time
}

func newHold(cut func()) *hold { return &hold{cut: cut, open: make(chan struct{})} }

// expect has leave wait for one function more.
func (h *hold) expect() { h.entered.Add(1) }

// stay is called inside.
func (h *hold) stay() {
	h.entered.Done()
	<-h.open
}

// leave lets all go.
func (h *hold) leave() {
	h.entered.Wait()
	h.cut()
	pause(300 * time.Millisecond) // for calls that will not come back
	h.left = time.Now()
	close(h.open)
}

// sinceLeft calls fn, which stays, and returns how long after it was let go it
// returned.
func (h *hold) sinceLeft(fn func()) time.Duration {
	fn()
	return time.Since(h.left)
}
