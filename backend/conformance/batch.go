package conformance

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func batchSpecs(s *subject) {
	// takeMany acquires n leases under work IDs of its own.
	takeMany := func(ctx context.Context, n int) []backend.LeaseRecord {
		GinkgoHelper()
		work := newWorkID()
		records := make([]backend.LeaseRecord, n)
		for i := range records {
			records[i] = s.take(ctx, work+strconv.Itoa(i), "a", live)
		}
		return records
	}

	It("has one verdict for each record, in their order", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			own := takeMany(ctx, 9)
			s.lapse(ctx, own[1])
			s.leave(ctx, own[2], backend.ExitFinished)
			s.lapse(ctx, own[3])
			s.take(ctx, own[3].WorkID, "successor", live)
			Expect(s.Forget(ctx, own[4])).To(Succeed())
			own[5].HolderID = "b"
			own[6].FencingToken |= 1 << 63
			own[7].FencingToken++
			verdicts, err := b.RenewBatch(ctx, own, lapsed)
			Expect(err).NotTo(HaveOccurred())
			Expect(verdicts).To(HaveExactElements(
				BeNil(), MatchError(expired), MatchError(expired), MatchError(fenced), MatchError(fenced),
				MatchError(fenced), MatchError(fenced), MatchError(fenced), BeNil()))
			own[5].HolderID = "a"
			for i, held := range []bool{false, false, false, true, false, true, true, true, false} {
				_, err := s.Acquire(ctx, own[i].WorkID, "other", live)
				Expect(errors.Is(err, backend.ErrLeaseHeld)).To(Equal(held), "lease %d: %v", i, err)
			}
		}
	})

	It("renews by the ttl and changes nothing else", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			own := takeMany(ctx, 2)
			for _, rec := range own {
				s.store(ctx, rec, "a's")
			}
			Expect(b.RenewBatch(ctx, own, live)).To(HaveEach(BeNil()))
			for _, rec := range own {
				Expect(s.standing(ctx, rec)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a", State: "a's"}))
			}
		}
	})

	It("has no verdict for no record", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			Expect(b.RenewBatch(ctx, nil, live)).To(BeEmpty())
		}
	})

	It("takes a record twice", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			own := takeMany(ctx, 2)
			s.lapse(ctx, own[1])
			Expect(b.RenewBatch(ctx, []backend.LeaseRecord{own[0], own[1], own[0], own[1]}, live)).
				To(HaveExactElements(BeNil(), MatchError(expired), BeNil(), MatchError(expired)))
		}
	})

	It("takes any name", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			var own []backend.LeaseRecord
			for _, name := range []string{`"`, `\`, `\"`, "{}", "{a,b}", ",", "NULL", " ", "\n", "'", "$1", "é", "e\u0301", "😀"} {
				own = append(own, s.take(ctx, newWorkID()+name, name, live))
			}
			Expect(b.RenewBatch(ctx, own, lapsed)).To(HaveEach(BeNil()))
			for _, rec := range own {
				Expect(s.succeed(ctx, rec.WorkID).PrevHolderID).To(Equal(rec.HolderID))
			}
		}
	})

	It("takes as many as the core sends at once", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			own := takeMany(ctx, 500)
			verdicts, err := b.RenewBatch(ctx, own, live)
			Expect(err).NotTo(HaveOccurred())
			Expect(verdicts).To(And(HaveLen(500), HaveEach(BeNil())))
		}
	})

	It("refuses no live lease, whatever its holder does beside it", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			own := takeMany(ctx, 20)
			backwards := slices.Clone(own)
			slices.Reverse(backwards)
			var lanes sync.WaitGroup
			for lane := range 6 {
				lanes.Go(func() {
					defer GinkgoRecover()
					for round := range 25 {
						switch lane {
						case 0:
							Expect(s.Renew(ctx, own[round%20], live)).To(Succeed())
						case 1:
							s.store(ctx, own[round%20], "a's")
						default:
							records := [][]backend.LeaseRecord{own, backwards}[lane%2]
							verdicts, err := b.RenewBatch(ctx, records, live)
							Expect(err).NotTo(HaveOccurred())
							for _, verdict := range verdicts {
								Expect(errors.Is(verdict, fenced) || errors.Is(verdict, expired)).To(BeFalse(), "%v", verdict)
							}
						}
					}
				})
			}
			lanes.Wait()
		}
	})

	It("renews nothing that was released or taken before", limit, func(ctx SpecContext) {
		if b, ok := s.batcher(); ok {
			for range 50 {
				own := takeMany(ctx, 3)
				var wg sync.WaitGroup
				wg.Go(func() {
					defer GinkgoRecover()
					s.leave(ctx, own[0], backend.ExitFinished)
					s.take(ctx, own[0].WorkID, "b", live)
					verdicts, err := b.RenewBatch(ctx, own, live)
					Expect(err).NotTo(HaveOccurred())
					Expect(verdicts[0]).To(HaveOccurred())
				})
				wg.Go(func() {
					defer GinkgoRecover()
					_, err := b.RenewBatch(ctx, own, live)
					Expect(err).NotTo(HaveOccurred())
				})
				wg.Wait()
				Expect(s.Acquire(ctx, own[0].WorkID, "c", live)).Error().To(MatchError(backend.ErrLeaseHeld))
			}
		}
	})
}
