package conformance

import (
	"errors"
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func acquireSpecs(s *subject) {
	var work string
	BeforeEach(func() { work = newWorkID() })

	It("returns the lease that was asked for", limit, func(ctx SpecContext) {
		rec := s.take(ctx, work, "a", live)
		Expect(rec.WorkID).To(Equal(work))
		Expect(rec.HolderID).To(Equal("a"))
		Expect(rec.FencingToken).To(BeNumerically(">", 0))
	})

	It("returns an expiry that the ttl moves", limit, func(ctx SpecContext) {
		past := s.take(ctx, newWorkID(), "a", -live)
		Expect(s.take(ctx, work, "a", live).ExpiresAt).To(BeTemporally(">", past.ExpiresAt))
	})

	It("starts a new row with no exit, no previous holder and no state", limit, func(ctx SpecContext) {
		Expect(s.read(ctx, s.take(ctx, work, "a", live))).To(Equal(backend.Checkpoint{PrevExit: backend.ExitNone}))
	})

	It("refuses while another holder's lease is live", limit, func(ctx SpecContext) {
		s.take(ctx, work, "a", live)
		_, err := s.Acquire(ctx, work, "b", live)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
	})

	It("refuses a holder's own live lease", limit, func(ctx SpecContext) {
		s.take(ctx, work, "a", live)
		_, err := s.Acquire(ctx, work, "a", live)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
	})

	It("refuses a lease that was taken over, too", limit, func(ctx SpecContext) {
		s.take(ctx, work, "a", lapsed)
		s.take(ctx, work, "b", live)
		_, err := s.Acquire(ctx, work, "c", live)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
	})

	It("changes nothing when it refuses", limit, func(ctx SpecContext) {
		s.leave(ctx, s.take(ctx, work, "a", live), backend.ExitFinished)
		owner := s.take(ctx, work, "b", live)
		s.store(ctx, owner, "b's")
		before := s.read(ctx, owner)

		_, err := s.Acquire(ctx, work, "c", lapsed)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
		Expect(s.read(ctx, owner)).To(Equal(before))
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "b", State: "b's"}))
	})

	It("says who holds the lease and for how long, where it knows", limit, func(ctx SpecContext) {
		s.take(ctx, work, "a", live)
		_, err := s.Acquire(ctx, work, "b", time.Second)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
		var held *backend.HeldError
		if errors.As(err, &held) {
			Expect(held.HolderID).To(Equal("a"))
			Expect(held.Remaining).To(BeNumerically("~", live, limit))
		}
	})

	DescribeTable("makes a lease that has already expired of a non-positive ttl",
		func(ctx SpecContext, ttl time.Duration) {
			s.take(ctx, work, "a", ttl)
			Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
		},
		Entry("zero", limit, time.Duration(0)),
		Entry("a nanosecond below zero", limit, -time.Nanosecond),
		Entry("an hour below zero", limit, -time.Hour),
		Entry("the least there is", limit, time.Duration(math.MinInt64)),
	)

	DescribeTable("makes a live lease of a positive ttl",
		func(ctx SpecContext, ttl time.Duration) {
			owner := s.take(ctx, work, "a", ttl)
			_, err := s.Acquire(ctx, work, "b", live)
			Expect(err).To(MatchError(backend.ErrLeaseHeld))
			s.lapse(ctx, owner) // lest it lapses by itself while another spec sweeps
		},
		Entry("a minute", limit, time.Minute),
		Entry("a month", limit, 30*24*time.Hour),
		Entry("the greatest there is", limit, time.Duration(math.MaxInt64)),
	)

	It("keeps work IDs apart", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		s.store(ctx, owner, "a's")
		other := s.take(ctx, newWorkID(), "a", live)
		Expect(s.read(ctx, other).State).To(BeNil())
		s.leave(ctx, other, backend.ExitRetired)
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a", State: "a's"}))
	})

	It("10b: a holder's own lease is held for that lease's ttl, then free under a greater token", limit, func(ctx SpecContext) {
		first := s.take(ctx, work, "a", time.Minute)
		_, err := s.Acquire(ctx, work, "a", time.Second)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
		var held *backend.HeldError
		if errors.As(err, &held) {
			Expect(held.Remaining).To(BeNumerically(">", time.Second))
		}

		s.lapse(ctx, first)
		second := s.take(ctx, work, "a", live)
		Expect(second.FencingToken).To(BeNumerically(">", first.FencingToken))
		Expect(s.read(ctx, second)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
	})
}
