package conformance

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func readSpecs(s *subject) {
	var owner backend.LeaseRecord
	BeforeEach(func(ctx SpecContext) {
		work := newWorkID()
		first := s.take(ctx, work, "a", live)
		s.store(ctx, first, "a's")
		s.leave(ctx, first, backend.ExitAbandoned)
		owner = s.take(ctx, work, "b", live)
	})

	found := func(state string) backend.Checkpoint {
		return backend.Checkpoint{State: []byte(state), PrevExit: backend.ExitAbandoned, PrevHolderID: "a"}
	}

	It("gives the previous holder's state, exit and name", limit, func(ctx SpecContext) {
		Expect(s.read(ctx, owner)).To(Equal(found("a's")))
	})

	It("gives the same answer again", limit, func(ctx SpecContext) {
		s.read(ctx, owner)
		Expect(s.read(ctx, owner)).To(Equal(found("a's")))
	})

	It("gives the same answer but for the state after the holder's own Checkpoint", limit, func(ctx SpecContext) {
		s.store(ctx, owner, "b's")
		Expect(s.read(ctx, owner)).To(Equal(found("b's")))
	})

	It("gives the same answer after the holder's own Release", limit, func(ctx SpecContext) {
		s.leave(ctx, owner, backend.ExitRetired)
		Expect(s.read(ctx, owner)).To(Equal(found("a's")))
	})

	It("gives the same answer after the lease has lapsed", limit, func(ctx SpecContext) {
		s.lapse(ctx, owner)
		Expect(s.read(ctx, owner)).To(Equal(found("a's")))
	})

	It("does not look at the holder", limit, func(ctx SpecContext) {
		owner.HolderID = "somebody else"
		Expect(s.read(ctx, owner)).To(Equal(found("a's")))
	})

	It("changes nothing", limit, func(ctx SpecContext) {
		s.read(ctx, owner)
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "b", State: "a's"}))
	})
}
