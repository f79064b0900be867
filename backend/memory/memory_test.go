package memory_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/memory"
)

func TestMemory(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "backend/memory")
}

const (
	ttl   = time.Minute
	limit = SpecTimeout(10 * time.Second)
)

var _ = Describe("Memory", conformance.RunSuite(func() backend.Backend { return memory.New() }))

var _ = Describe("Memory on an injected clock", func() {
	var (
		clock *manual
		b     *memory.Backend
	)
	BeforeEach(func() {
		before := gleak.Goroutines()
		DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
		clock = &manual{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
		b = memory.New(memory.WithClock(clock))
	})

	acquire := func(ctx context.Context, holderID string, ttl time.Duration) backend.LeaseRecord {
		GinkgoHelper()
		rec, err := b.Acquire(ctx, "work", holderID, ttl)
		Expect(err).NotTo(HaveOccurred())
		return rec
	}

	// held is what somebody else is told until a lease lapses.
	held := func(ctx context.Context) error {
		_, err := b.Acquire(ctx, "work", "b", ttl)
		return err
	}

	It("lets a lease live for its ttl", limit, func(ctx SpecContext) {
		Expect(acquire(ctx, "a", ttl).ExpiresAt).To(Equal(clock.now.Add(ttl)))
		clock.advance(ttl - 1)
		Expect(held(ctx)).To(Equal(&backend.HeldError{HolderID: "a", Remaining: 1}))
		clock.advance(1)
		Expect(held(ctx)).To(Succeed())
	})

	It("4a: at its very expiry a lease cannot be renewed but acquired", limit, func(ctx SpecContext) {
		a := acquire(ctx, "a", ttl)
		clock.advance(ttl)
		Expect(b.Renew(ctx, a, ttl)).To(MatchError(backend.ErrLeaseExpired))
		Expect(held(ctx)).To(Succeed())
	})

	It("4a: at its very expiry a lease can be acquired and not be renewed any more", limit, func(ctx SpecContext) {
		a := acquire(ctx, "a", ttl)
		clock.advance(ttl)
		Expect(held(ctx)).To(Succeed())
		Expect(b.Renew(ctx, a, ttl)).To(MatchError(backend.ErrFenced))
	})

	It("4a: an instant earlier a lease can be renewed but not acquired", limit, func(ctx SpecContext) {
		a := acquire(ctx, "a", ttl)
		clock.advance(ttl - 1)
		Expect(held(ctx)).To(MatchError(backend.ErrLeaseHeld))
		Expect(b.Renew(ctx, a, ttl)).To(Succeed())
	})

	It("9a: a lease can be released until its expiry, not at it", limit, func(ctx SpecContext) {
		a := acquire(ctx, "a", ttl)
		clock.advance(ttl)
		Expect(b.Release(ctx, a, backend.ExitFinished)).To(MatchError(backend.ErrLeaseExpired))
		next := acquire(ctx, "b", ttl)
		clock.advance(ttl - 1)
		Expect(b.Release(ctx, next, backend.ExitFinished)).To(Succeed())
	})

	It("10b: a holder's own lease is held for that lease's 60 s, whatever ttl it asks for", limit, func(ctx SpecContext) {
		first := acquire(ctx, "a", time.Minute)
		clock.advance(time.Minute - 1)
		_, err := b.Acquire(ctx, "work", "a", time.Second)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))

		clock.advance(1)
		second := acquire(ctx, "a", time.Second)
		Expect(second.FencingToken).To(BeNumerically(">", first.FencingToken))
		Expect(b.ReadCheckpoint(ctx, second)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
		clock.advance(time.Second)
		Expect(held(ctx)).To(Succeed())
	})

	DescribeTable("moves the expiry to the ttl from now",
		func(ctx SpecContext, extend func(context.Context, backend.LeaseRecord) error) {
			a := acquire(ctx, "a", ttl)
			clock.advance(ttl / 2)
			Expect(extend(ctx, a)).To(Succeed())
			clock.advance(ttl - 1)
			Expect(held(ctx)).To(MatchError(backend.ErrLeaseHeld))
			clock.advance(1)
			Expect(held(ctx)).To(Succeed())
		},
		Entry("Renew", limit, func(ctx context.Context, a backend.LeaseRecord) error { return b.Renew(ctx, a, ttl) }),
		Entry("Checkpoint", limit, func(ctx context.Context, a backend.LeaseRecord) error {
			return b.Checkpoint(ctx, a, []byte("half"), ttl)
		}),
	)

	DescribeTable("never moves an expiry back by a clock that goes back",
		func(ctx SpecContext, extend func(context.Context, backend.LeaseRecord) error) {
			a := acquire(ctx, "a", ttl)
			clock.advance(-ttl / 2)
			Expect(extend(ctx, a)).To(Succeed())
			clock.advance(ttl/2 + ttl - 1)
			Expect(held(ctx)).To(MatchError(backend.ErrLeaseHeld))
			clock.advance(1)
			Expect(held(ctx)).To(Succeed())
		},
		Entry("Renew", limit, func(ctx context.Context, a backend.LeaseRecord) error { return b.Renew(ctx, a, ttl) }),
		Entry("Checkpoint", limit, func(ctx context.Context, a backend.LeaseRecord) error {
			return b.Checkpoint(ctx, a, []byte("half"), ttl)
		}),
	)

	DescribeTable("frees a lease at once although the clock went back",
		func(ctx SpecContext, free func(context.Context, backend.LeaseRecord) error) {
			a := acquire(ctx, "a", ttl)
			clock.advance(-time.Hour)
			Expect(free(ctx, a)).To(Succeed())
			Expect(held(ctx)).To(Succeed())
		},
		Entry("Release", limit, func(ctx context.Context, a backend.LeaseRecord) error { return b.Release(ctx, a, backend.ExitFinished) }),
		Entry("Restore", limit, func(ctx context.Context, a backend.LeaseRecord) error { return b.Restore(ctx, a) }),
	)

	DescribeTable("29a: sweeps what was updated longer ago than the retention, not at it",
		func(ctx SpecContext, end func(context.Context, backend.LeaseRecord) error) {
			a := acquire(ctx, "a", ttl)
			clock.advance(ttl / 2)
			Expect(end(ctx, a)).To(Succeed())
			clock.advance(time.Hour)
			opts := backend.SweepOptions{Retention: time.Hour, IncludeExpired: true}
			Expect(b.Sweep(ctx, opts)).To(BeZero())
			clock.advance(1)
			Expect(b.Sweep(ctx, opts)).To(Equal(int64(1)))
		},
		Entry("retired", limit, func(ctx context.Context, a backend.LeaseRecord) error { return b.Release(ctx, a, backend.ExitRetired) }),
		Entry("lapsed", limit, func(ctx context.Context, a backend.LeaseRecord) error { return b.Renew(ctx, a, ttl) }),
	)

	It("draws its tokens from one counter, which a refused Acquire does not advance", limit, func(ctx SpecContext) {
		Expect(acquire(ctx, "a", ttl).FencingToken).To(Equal(uint64(1)))
		Expect(held(ctx)).To(MatchError(backend.ErrLeaseHeld))
		other, err := b.Acquire(ctx, "other work", "a", ttl)
		Expect(err).NotTo(HaveOccurred())
		Expect(other.FencingToken).To(Equal(uint64(2)))
	})

	It("shares nothing with another backend", limit, func(ctx SpecContext) {
		acquire(ctx, "a", ttl)
		rec, err := memory.New().Acquire(ctx, "work", "b", ttl)
		Expect(err).NotTo(HaveOccurred())
		Expect(rec.FencingToken).To(Equal(uint64(1)))
	})
})

// manual is a clock that stands still unless it is moved.
type manual struct{ now time.Time }

func (m *manual) Now() time.Time { return m.now }

func (m *manual) advance(d time.Duration) { m.now = m.now.Add(d) }
