package conformance

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func generationSpecs(s *subject) {
	store := func(ctx context.Context, rec backend.LeaseRecord, generation int, state string) error {
		return s.Checkpoint(backend.WithGeneration(ctx, generation), rec, []byte(state), live)
	}

	It("stores checkpoints of one generation, and of a later one", limit, func(ctx SpecContext) {
		if n, ok := s.generations(); ok {
			rec := s.take(ctx, newWorkID(), "a", live)
			for _, generation := range []int{0, 0, 1, 1, n - 1, n - 1} {
				Expect(store(ctx, rec, generation, "state")).To(Succeed())
			}
			Expect(s.read(ctx, rec).State).To(Equal([]byte("state")))
		}
	})

	It("refuses one below the latest, writes nothing and gives no verdict", limit, func(ctx SpecContext) {
		if _, ok := s.generations(); ok {
			rec := s.take(ctx, newWorkID(), "a", live)
			Expect(store(ctx, rec, 2, "later")).To(Succeed())
			s.lapse(ctx, rec)
			for _, late := range []error{store(ctx, rec, 1, "late"), s.Checkpoint(ctx, rec, []byte("late"), live)} {
				expectNoVerdict(late)
			}
			Expect(s.succeed(ctx, rec.WorkID).State).To(Equal([]byte("later")), "and it did not revive the lease")
		}
	})

	It("renews and releases whatever the generation", limit, func(ctx SpecContext) {
		if _, ok := s.generations(); ok {
			rec := s.take(ctx, newWorkID(), "a", live)
			Expect(store(ctx, rec, 3, "state")).To(Succeed())
			Expect(s.Renew(ctx, rec, live)).To(Succeed())
			s.leave(ctx, rec, backend.ExitFinished)
		}
	})

	It("begins anew with every lease", limit, func(ctx SpecContext) {
		if _, ok := s.generations(); ok {
			first := s.take(ctx, newWorkID(), "a", live)
			Expect(store(ctx, first, 5, "a's")).To(Succeed())
			s.leave(ctx, first, backend.ExitFinished)
			second := s.take(ctx, first.WorkID, "b", live)
			Expect(store(ctx, second, 0, "b's")).To(Succeed())
			Expect(store(ctx, first, 6, "zombie's")).To(MatchError(backend.ErrFenced))
		}
	})

	It("refuses a holder who has left, in every generation", limit, func(ctx SpecContext) {
		if _, ok := s.generations(); ok {
			rec := s.take(ctx, newWorkID(), "a", live)
			s.leave(ctx, rec, backend.ExitFinished)
			Expect(store(ctx, rec, 1, "late")).To(MatchError(backend.ErrLeaseExpired))
		}
	})
}
