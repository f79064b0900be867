package conformance

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

// sweep deletes whatever may go, as if everything had been updated long ago.
func (s *subject) sweep(ctx context.Context, includeExpired bool) int64 {
	GinkgoHelper()
	n, err := s.Sweep(ctx, backend.SweepOptions{Retention: -live, IncludeExpired: includeExpired})
	Expect(err).NotTo(HaveOccurred())
	return n
}

func sweepSpecs(s *subject) {
	gone := standing{Exit: backend.ExitNone}

	left := func(mode backend.ExitMode) end {
		return func(ctx context.Context, s *subject, owner backend.LeaseRecord) standing {
			s.leave(ctx, owner, mode)
			return standing{Exit: mode, Holder: owner.HolderID, State: "owner's"}
		}
	}

	DescribeTable("29a: chooses by how the row was left",
		func(ctx SpecContext, e end, includeExpired, doomed bool) {
			s.sweep(ctx, true)
			at := own(e)(ctx, s)
			if doomed {
				Expect(s.sweep(ctx, includeExpired)).To(Equal(int64(1)))
				Expect(s.standing(ctx, at.owner)).To(Equal(gone))
			} else {
				Expect(s.sweep(ctx, includeExpired)).To(BeZero())
				Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
			}
		},
		Entry("29a: a held lease stays", limit, end(stay), false, false),
		Entry("29a: a held lease stays with IncludeExpired", limit, end(stay), true, false),
		Entry("29a: a finished row stays", limit, left(backend.ExitFinished), false, false),
		Entry("29a: a finished row stays with IncludeExpired", limit, left(backend.ExitFinished), true, false),
		Entry("29a: an abandoned row stays", limit, left(backend.ExitAbandoned), false, false),
		Entry("29a: an abandoned row stays with IncludeExpired", limit, left(backend.ExitAbandoned), true, false),
		Entry("29a: a retired row goes", limit, left(backend.ExitRetired), false, true),
		Entry("29a: a retired row goes with IncludeExpired", limit, left(backend.ExitRetired), true, true),
		Entry("29a: an expired row stays", limit, end(lapse), false, false),
		Entry("29a: an expired row goes with IncludeExpired", limit, end(lapse), true, true),
	)

	DescribeTable("29a: keeps what was updated within the retention",
		func(ctx SpecContext, e end) {
			at := own(e)(ctx, s)
			n, err := s.Sweep(ctx, backend.SweepOptions{Retention: live, IncludeExpired: true})
			Expect(err).NotTo(HaveOccurred())
			Expect(n).To(BeZero())
			Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
		},
		Entry("retired", limit, left(backend.ExitRetired)),
		Entry("expired", limit, end(lapse)),
	)

	It("goes by the last exit, not by the one before", limit, func(ctx SpecContext) {
		work := newWorkID()
		s.leave(ctx, s.take(ctx, work, "a", live), backend.ExitRetired)
		owner := s.take(ctx, work, "b", live)
		s.leave(ctx, owner, backend.ExitFinished)
		s.sweep(ctx, true)
		Expect(s.standing(ctx, owner)).To(Equal(standing{Exit: backend.ExitFinished, Holder: "b"}))
	})

	It("counts every row that it deletes", limit, func(ctx SpecContext) {
		s.sweep(ctx, true)
		for range 7 {
			own(left(backend.ExitRetired))(ctx, s)
			own(left(backend.ExitFinished))(ctx, s)
			own(lapse)(ctx, s)
		}
		Expect(s.sweep(ctx, false)).To(Equal(int64(7)), "retired")
		Expect(s.sweep(ctx, true)).To(Equal(int64(7)), "expired")
		Expect(s.sweep(ctx, true)).To(BeZero())
	})

	It("fences the holder whose row it deleted", limit, func(ctx SpecContext) {
		at := own(left(backend.ExitRetired))(ctx, s)
		s.sweep(ctx, false)
		for _, c := range calls {
			if s.offered(c) {
				Expect(c.do(ctx, s.Backend, at.owner)).To(MatchError(backend.ErrFenced), c.name)
			}
		}
	})
}
