package conformance

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func restoreSpecs(s *subject) {
	// leftAs takes workID and leaves it with exit, under a state.
	leftAs := func(ctx context.Context, workID string, exit backend.ExitMode) standing {
		GinkgoHelper()
		if exit == backend.ExitNone {
			return standing{}
		}
		a := s.take(ctx, workID, "a", live)
		s.store(ctx, a, "a's")
		if exit == backend.ExitExpired {
			s.lapse(ctx, a)
		} else {
			s.leave(ctx, a, exit)
		}
		return standing{Exit: exit, Holder: "a", State: "a's"}
	}

	DescribeTable("puts a lease back as Acquire found it, free at once",
		func(ctx SpecContext, exit backend.ExitMode, ttl time.Duration) {
			if r, ok := s.restorer(); ok {
				work := newWorkID()
				found := leftAs(ctx, work, exit)
				owner := s.take(ctx, work, "b", ttl)
				Expect(r.Restore(ctx, owner)).To(Succeed())
				Expect(s.standing(ctx, owner)).To(Equal(found))
			}
		},
		Entry("no row, a live lease", limit, backend.ExitNone, live),
		Entry("no row, a lapsed lease", limit, backend.ExitNone, lapsed),
		Entry("finished, a live lease", limit, backend.ExitFinished, live),
		Entry("finished, a lapsed lease", limit, backend.ExitFinished, lapsed),
		Entry("abandoned, a live lease", limit, backend.ExitAbandoned, live),
		Entry("abandoned, a lapsed lease", limit, backend.ExitAbandoned, lapsed),
		Entry("retired, a live lease", limit, backend.ExitRetired, live),
		Entry("retired, a lapsed lease", limit, backend.ExitRetired, lapsed),
		Entry("expired, a live lease", limit, backend.ExitExpired, live),
		Entry("expired, a lapsed lease", limit, backend.ExitExpired, lapsed),
	)

	It("keeps a state that was stored since", limit, func(ctx SpecContext) {
		if r, ok := s.restorer(); ok {
			work := newWorkID()
			leftAs(ctx, work, backend.ExitFinished)
			owner := s.take(ctx, work, "b", live)
			s.store(ctx, owner, "b's")
			Expect(r.Restore(ctx, owner)).To(Succeed())
			Expect(s.standing(ctx, owner)).To(Equal(standing{Exit: backend.ExitFinished, Holder: "a", State: "b's"}))
		}
	})

	It("takes back a declared exit, too", limit, func(ctx SpecContext) {
		if r, ok := s.restorer(); ok {
			work := newWorkID()
			found := leftAs(ctx, work, backend.ExitExpired)
			owner := s.take(ctx, work, "b", live)
			s.leave(ctx, owner, backend.ExitFinished)
			Expect(r.Restore(ctx, owner)).To(Succeed())
			Expect(s.standing(ctx, owner)).To(Equal(found))
		}
	})

	It("keeps the token, so that the holder before stays fenced", limit, func(ctx SpecContext) {
		if r, ok := s.restorer(); ok {
			first := s.take(ctx, newWorkID(), "a", lapsed)
			owner := s.take(ctx, first.WorkID, "b", live)
			Expect(r.Restore(ctx, owner)).To(Succeed())
			Expect(s.Checkpoint(ctx, first, nil, live)).To(MatchError(backend.ErrFenced))
			Expect(s.read(ctx, owner).PrevHolderID).To(Equal("a"))
		}
	})

	It("leaves the holder whose lease it undid without a lease", limit, func(ctx SpecContext) {
		if r, ok := s.restorer(); ok {
			work := newWorkID()
			leftAs(ctx, work, backend.ExitExpired)
			owner := s.take(ctx, work, "b", live)
			Expect(r.Restore(ctx, owner)).To(Succeed())
			Expect(s.Checkpoint(ctx, owner, nil, live)).To(MatchError(backend.ErrFenced))
			Expect(s.Renew(ctx, owner, live)).To(MatchError(backend.ErrFenced))
			Expect(s.Release(ctx, owner, backend.ExitFinished)).To(MatchError(backend.ErrFenced))
		}
	})

	DescribeTable("never lets the token fall",
		func(ctx SpecContext, exit backend.ExitMode) {
			if r, ok := s.restorer(); ok {
				work := newWorkID()
				leftAs(ctx, work, exit)
				owner := s.take(ctx, work, "b", live)
				Expect(r.Restore(ctx, owner)).To(Succeed())
				Expect(s.take(ctx, work, "c", live).FencingToken).To(BeNumerically(">", owner.FencingToken))
			}
		},
		Entry("where the row goes", limit, backend.ExitNone),
		Entry("where the row stays", limit, backend.ExitAbandoned),
	)
}
