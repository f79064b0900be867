package conformance

import (
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func tokenSpecs(s *subject) {
	It("rises with every lease of one work ID", limit, func(ctx SpecContext) {
		work, last := newWorkID(), uint64(0)
		for i := range 50 {
			rec := s.take(ctx, work, "holder-"+strconv.Itoa(i%3), live)
			Expect(rec.FencingToken).To(BeNumerically(">", last))
			last = rec.FencingToken
			if i%2 == 0 {
				s.lapse(ctx, rec)
			} else {
				s.leave(ctx, rec, backend.ExitFinished)
			}
		}
	})

	It("rises across work IDs", limit, func(ctx SpecContext) {
		last := uint64(0)
		for range 20 {
			rec := s.take(ctx, newWorkID(), "a", live)
			Expect(rec.FencingToken).To(BeNumerically(">", last))
			last = rec.FencingToken
		}
	})

	It("is not moved by what the holder does", limit, func(ctx SpecContext) {
		rec := s.take(ctx, newWorkID(), "a", live)
		s.store(ctx, rec, "half")
		Expect(s.Renew(ctx, rec, live)).To(Succeed())
		_, err := s.Acquire(ctx, rec.WorkID, "b", live)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
		Expect(s.Renew(ctx, rec, live)).To(Succeed())
	})

	It("survives Forget", limit, func(ctx SpecContext) {
		rec := s.take(ctx, newWorkID(), "a", live)
		Expect(s.Forget(ctx, rec)).To(Succeed())
		Expect(s.take(ctx, rec.WorkID, "a", live).FencingToken).To(BeNumerically(">", rec.FencingToken))
	})

	It("survives Sweep", Serial, limit, func(ctx SpecContext) {
		rec := s.take(ctx, newWorkID(), "a", live)
		s.leave(ctx, rec, backend.ExitRetired)
		s.sweep(ctx, false)
		next := s.take(ctx, rec.WorkID, "a", live)
		Expect(s.read(ctx, next).PrevExit).To(Equal(backend.ExitNone), "the row was swept")
		Expect(next.FencingToken).To(BeNumerically(">", rec.FencingToken))
	})
}
