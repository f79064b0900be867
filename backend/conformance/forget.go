package conformance

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func forgetSpecs(s *subject) {
	DescribeTable("deletes the row, so that the next holder starts anew",
		func(ctx SpecContext, end func(context.Context, backend.LeaseRecord)) {
			owner := s.take(ctx, newWorkID(), "a", live)
			s.store(ctx, owner, "a's")
			end(ctx, owner)
			Expect(s.Forget(ctx, owner)).To(Succeed())
			Expect(s.succeed(ctx, owner.WorkID)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitNone}))
		},
		Entry("while the lease is live", limit, func(context.Context, backend.LeaseRecord) {}),
		Entry("after it has lapsed", limit, func(ctx context.Context, rec backend.LeaseRecord) { s.lapse(ctx, rec) }),
		Entry("after the holder's own Release", limit, func(ctx context.Context, rec backend.LeaseRecord) {
			s.leave(ctx, rec, backend.ExitFinished)
		}),
	)

	It("leaves other work alone", limit, func(ctx SpecContext) {
		owner, other := s.take(ctx, newWorkID(), "a", live), s.take(ctx, newWorkID(), "a", live)
		Expect(s.Forget(ctx, owner)).To(Succeed())
		Expect(s.standing(ctx, other)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a"}))
	})

	It("8c: after Forget every call is fenced, no row comes back and the next holder sees none", limit, func(ctx SpecContext) {
		owner := s.take(ctx, newWorkID(), "a", live)
		s.store(ctx, owner, "a's")
		Expect(s.Forget(ctx, owner)).To(Succeed())
		for _, c := range calls {
			if s.offered(c) {
				Expect(c.do(ctx, s.Backend, owner)).To(MatchError(backend.ErrFenced), c.name)
			}
		}
		Expect(s.succeed(ctx, owner.WorkID)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitNone}))
	})
}
