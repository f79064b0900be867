package conformance

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func checkpointSpecs(s *subject) {
	var work string
	BeforeEach(func() { work = newWorkID() })

	It("stores the state and keeps the lease", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		Expect(s.Checkpoint(ctx, owner, []byte("half"), live)).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a", State: "half"}))
	})

	It("moves the expiry in the same step", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		Expect(s.Checkpoint(ctx, owner, []byte("half"), lapsed)).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Exit: backend.ExitExpired, Holder: "a", State: "half"}))
	})

	It("revives a lease that has lapsed untaken", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", lapsed)
		Expect(s.Checkpoint(ctx, owner, []byte("late"), live)).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a", State: "late"}))
	})

	It("lets a revived lease be released", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", lapsed)
		s.store(ctx, owner, "late")
		s.leave(ctx, owner, backend.ExitAbandoned)
		Expect(s.succeed(ctx, work).PrevExit).To(Equal(backend.ExitAbandoned))
	})

	It("writes after a lease was taken over from one that declared an exit", limit, func(ctx SpecContext) {
		s.leave(ctx, s.take(ctx, work, "a", live), backend.ExitFinished)
		owner := s.take(ctx, work, "b", live)
		Expect(s.Checkpoint(ctx, owner, []byte("b's"), live)).To(Succeed())
	})
}

func renewSpecs(s *subject) {
	var work string
	BeforeEach(func() { work = newWorkID() })

	It("keeps a live lease, its state and what its holder reads", limit, func(ctx SpecContext) {
		s.leave(ctx, s.take(ctx, work, "a", live), backend.ExitAbandoned)
		owner := s.take(ctx, work, "b", live)
		s.store(ctx, owner, "half")
		Expect(s.Renew(ctx, owner, live)).To(Succeed())
		Expect(s.read(ctx, owner)).To(Equal(backend.Checkpoint{
			State: []byte("half"), PrevExit: backend.ExitAbandoned, PrevHolderID: "a",
		}))
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "b", State: "half"}))
	})

	It("moves the expiry", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		Expect(s.Renew(ctx, owner, lapsed)).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Exit: backend.ExitExpired, Holder: "a"}))
	})

	It("goes by what is stored, not by the record's expiry", limit, func(ctx SpecContext) {
		owner := s.take(ctx, work, "a", live)
		owner.ExpiresAt = owner.ExpiresAt.Add(-2 * live)
		Expect(s.Renew(ctx, owner, live)).To(Succeed())
	})
}
