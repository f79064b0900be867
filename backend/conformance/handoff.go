package conformance

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func handoffSpecs(s *subject) {
	var work string
	BeforeEach(func() { work = newWorkID() })

	It("tells each of three holders in a row how the one before it left", limit, func(ctx SpecContext) {
		a := s.take(ctx, work, "a", live)
		s.store(ctx, a, "one")
		s.leave(ctx, a, backend.ExitFinished)

		b := s.take(ctx, work, "b", live)
		Expect(s.read(ctx, b)).To(Equal(backend.Checkpoint{State: []byte("one"), PrevExit: backend.ExitFinished, PrevHolderID: "a"}))
		s.store(ctx, b, "two")
		s.lapse(ctx, b)

		c := s.take(ctx, work, "c", live)
		Expect(s.read(ctx, c)).To(Equal(backend.Checkpoint{State: []byte("two"), PrevExit: backend.ExitExpired, PrevHolderID: "b"}))
		s.leave(ctx, c, backend.ExitRetired)

		Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{State: []byte("two"), PrevExit: backend.ExitRetired, PrevHolderID: "c"}))
	})

	DescribeTable("forgets a declared exit once a successor has taken it over",
		func(ctx SpecContext, mode backend.ExitMode) {
			s.leave(ctx, s.take(ctx, work, "a", live), mode)
			s.take(ctx, work, "b", lapsed)
			Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "b"}))
		},
		Entry("finished", limit, backend.ExitFinished),
		Entry("abandoned", limit, backend.ExitAbandoned),
		Entry("retired", limit, backend.ExitRetired),
	)

	DescribeTable("keeps the state that was stored last through a holder who stores none",
		func(ctx SpecContext, e end) {
			at := own(e)(ctx, s)
			s.take(ctx, at.owner.WorkID, "b", lapsed)
			Expect(s.succeed(ctx, at.owner.WorkID).State).To(Equal([]byte("owner's")))
		},
		Entry("after a crash", limit, end(lapse)),
		Entry("after a release", limit, end(leave)),
	)

	It("10a: once another holder has it, every call of the first is fenced and the lease unharmed", limit, func(ctx SpecContext) {
		at := takenOver(stay)(ctx, s)
		before := s.read(ctx, at.owner)
		for _, c := range calls {
			if s.offered(c) {
				Expect(c.do(ctx, s.Backend, at.used)).To(MatchError(backend.ErrFenced), c.name)
			}
		}
		Expect(s.read(ctx, at.owner)).To(Equal(before))
		Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
	})

	It("gives the successor a lease like any other", limit, func(ctx SpecContext) {
		s.leave(ctx, s.take(ctx, work, "a", live), backend.ExitFinished)
		b := s.take(ctx, work, "b", live)
		for _, step := range []func(context.Context) error{
			func(ctx context.Context) error { return s.Renew(ctx, b, live) },
			func(ctx context.Context) error { return s.Checkpoint(ctx, b, []byte("b's"), live) },
			func(ctx context.Context) error { return s.Release(ctx, b, backend.ExitAbandoned) },
		} {
			Expect(step(ctx)).To(Succeed())
		}
		Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{
			State: []byte("b's"), PrevExit: backend.ExitAbandoned, PrevHolderID: "b",
		}))
	})
}
