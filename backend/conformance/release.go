package conformance

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func releaseSpecs(s *subject) {
	var work string
	BeforeEach(func() { work = newWorkID() })

	DescribeTable("records the exit, keeps the state and frees the lease at once",
		func(ctx SpecContext, mode backend.ExitMode) {
			owner := s.take(ctx, work, "a", live)
			s.store(ctx, owner, "a's")
			Expect(s.Release(ctx, owner, mode)).To(Succeed())
			Expect(s.standing(ctx, owner)).To(Equal(standing{Exit: mode, Holder: "a", State: "a's"}))
		},
		Entry("finished", limit, backend.ExitFinished),
		Entry("abandoned", limit, backend.ExitAbandoned),
		Entry("retired", limit, backend.ExitRetired),
	)

	It("frees the lease for its own holder, too", limit, func(ctx SpecContext) {
		s.leave(ctx, s.take(ctx, work, "a", live), backend.ExitFinished)
		Expect(s.read(ctx, s.take(ctx, work, "a", live))).To(Equal(
			backend.Checkpoint{PrevExit: backend.ExitFinished, PrevHolderID: "a"}))
	})

	It("8a: a Renew after Release(finished) is refused as expired, and another holder acquires", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		s.leave(ctx, owner, backend.ExitFinished)
		Expect(s.Renew(ctx, owner, live)).To(MatchError(backend.ErrLeaseExpired))
		Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitFinished, PrevHolderID: "a"}))
	})

	It("8b: of two Releases the first stands", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		s.leave(ctx, owner, backend.ExitAbandoned)
		Expect(s.Release(ctx, owner, backend.ExitFinished)).To(MatchError(backend.ErrLeaseExpired))
		Expect(s.succeed(ctx, work).PrevExit).To(Equal(backend.ExitAbandoned))
	})

	It("9a: a lapsed lease cannot be released, before and after a takeover, and counts as expired", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", lapsed)
		Expect(s.Release(ctx, owner, backend.ExitFinished)).To(MatchError(backend.ErrLeaseExpired))
		Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
		Expect(s.Release(ctx, owner, backend.ExitFinished)).To(MatchError(backend.ErrFenced))
	})

	DescribeTable("refuses a mode that nobody can declare and keeps the lease",
		func(ctx SpecContext, mode backend.ExitMode) {
			owner := s.take(ctx, work, "a", live)
			Expect(s.Release(ctx, owner, mode)).To(MatchError(backend.ErrInvalidExitMode))
			Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a"}))
		},
		Entry("9b: none", limit, backend.ExitNone),
		Entry("9b: expired", limit, backend.ExitExpired),
		Entry("9b: a mode that does not exist yet", limit, backend.ExitExpired+1),
		Entry("9b: 99", limit, backend.ExitMode(99)),
	)

	It("refuses such a mode before it looks at anything else", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		other := owner
		other.HolderID = "b"
		missing := owner
		missing.WorkID = newWorkID()
		done, cancel := context.WithCancel(ctx)
		cancel()
		Expect(s.Release(ctx, other, backend.ExitNone)).To(MatchError(backend.ErrInvalidExitMode), "another holder")
		Expect(s.Release(ctx, missing, backend.ExitNone)).To(MatchError(backend.ErrInvalidExitMode), "no row")
		Expect(s.Release(done, owner, backend.ExitNone)).To(MatchError(backend.ErrInvalidExitMode), "a done context")
		s.leave(ctx, owner, backend.ExitFinished)
		Expect(s.Release(ctx, owner, backend.ExitNone)).To(MatchError(backend.ErrInvalidExitMode), "released")
	})

	It("9c: the next holder of retired work sees that, by whom, and the state", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		s.store(ctx, owner, "done for good")
		s.leave(ctx, owner, backend.ExitRetired)
		Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{
			State: []byte("done for good"), PrevExit: backend.ExitRetired, PrevHolderID: "a",
		}))
	})
}
