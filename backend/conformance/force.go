package conformance

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func forceSpecs(s *subject) {
	DescribeTable("frees the lease at once, and a successor reads expired, the holder forced out and its state",
		func(ctx SpecContext, e end) {
			if f, ok := s.forceReleaser(); ok {
				at := own(e)(ctx, s)
				Expect(f.ForceRelease(ctx, at.owner.WorkID, at.owner.FencingToken)).To(Succeed())
				Expect(s.succeed(ctx, at.owner.WorkID)).To(Equal(backend.Checkpoint{
					State: []byte("owner's"), PrevExit: backend.ExitExpired, PrevHolderID: "a",
				}))
			}
		},
		Entry("of a live lease", limit, end(stay)),
		Entry("of one that has lapsed", limit, end(lapse)),
	)

	DescribeTable("fences the holder before anybody takes over, so that nothing revives the lease",
		func(ctx SpecContext, e end) {
			if f, ok := s.forceReleaser(); ok {
				at := own(e)(ctx, s)
				Expect(f.ForceRelease(ctx, at.owner.WorkID, at.owner.FencingToken)).To(Succeed())
				for _, c := range calls {
					if s.offered(c) {
						Expect(c.do(ctx, s.Backend, at.owner)).To(MatchError(backend.ErrFenced), c.name)
					}
				}
				Expect(s.succeed(ctx, at.owner.WorkID)).To(Equal(backend.Checkpoint{
					State: []byte("owner's"), PrevExit: backend.ExitExpired, PrevHolderID: "a",
				}))
			}
		},
		Entry("of a live lease", limit, end(stay)),
		Entry("of one that has lapsed", limit, end(lapse)),
	)

	It("takes a lease that its holder has before it stores the next checkpoint", limit, func(ctx SpecContext) {
		if f, ok := s.forceReleaser(); ok {
			rec := s.take(ctx, newWorkID(), "a", live)
			s.store(ctx, rec, "first")
			Expect(f.ForceRelease(ctx, rec.WorkID, rec.FencingToken)).To(Succeed())
			Expect(s.Checkpoint(ctx, rec, []byte("second"), live)).To(MatchError(backend.ErrFenced))
			Expect(s.succeed(ctx, rec.WorkID).State).To(Equal([]byte("first")))
		}
	})

	It("gives the next lease a token above the holder's and its own", limit, func(ctx SpecContext) {
		if f, ok := s.forceReleaser(); ok {
			rec := s.take(ctx, newWorkID(), "a", live)
			Expect(f.ForceRelease(ctx, rec.WorkID, rec.FencingToken)).To(Succeed())
			last := rec.FencingToken
			if l, ok := s.lister(); ok {
				last = only(ctx, l, rec.WorkID).FencingToken
				Expect(last).To(BeNumerically(">", rec.FencingToken))
			}
			Expect(s.take(ctx, rec.WorkID, "a", live).FencingToken).To(BeNumerically(">", last))
		}
	})

	It("keeps an exit that was declared, and says so", limit, func(ctx SpecContext) {
		if f, ok := s.forceReleaser(); ok {
			at := own(leave)(ctx, s)
			Expect(f.ForceRelease(ctx, at.owner.WorkID, at.owner.FencingToken)).To(MatchError(backend.ErrLeaseExpired))
			Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
		}
	})

	It("touches no lease but the one of that token", limit, func(ctx SpecContext) {
		if f, ok := s.forceReleaser(); ok {
			at := takenOver(stay)(ctx, s)
			other := own(stay)(ctx, s)
			Expect(f.ForceRelease(ctx, at.owner.WorkID, at.used.FencingToken)).To(MatchError(backend.ErrFenced))
			Expect(f.ForceRelease(ctx, other.owner.WorkID, at.owner.FencingToken)).To(MatchError(backend.ErrFenced))
			Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
			Expect(s.standing(ctx, other.owner)).To(Equal(other.standing))
		}
	})
}
