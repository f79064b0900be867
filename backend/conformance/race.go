package conformance

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func raceSpecs(s *subject) {
	It("has one winner among 64, on a row that never was and on one that has lapsed", limit, func(ctx SpecContext) {
		work := newWorkID()
		for range 20 {
			won := s.race(ctx, work, 64)
			Expect(won).To(HaveLen(1))
			s.lapse(ctx, won[0])
		}
	})

	It("has one winner under a greater token in each of 200 rounds", limit, func(ctx SpecContext) {
		work, last := newWorkID(), uint64(0)
		for range 200 {
			won := s.race(ctx, work, 8)
			Expect(won).To(HaveLen(1))
			Expect(won[0].FencingToken).To(BeNumerically(">", last))
			last = won[0].FencingToken
			s.lapse(ctx, won[0])
		}
	})

	It("11b: no Renew succeeds that began after Release had, in a thousand rounds", limit, func(ctx SpecContext) {
		var lanes sync.WaitGroup
		for range 8 {
			lanes.Go(func() {
				defer GinkgoRecover()
				s.renewAgainstRelease(ctx, 125)
			})
		}
		lanes.Wait()
	})

	It("hands a lease over once while its holder forgets it", limit, func(ctx SpecContext) {
		for range 50 {
			owner := s.take(ctx, newWorkID(), "a", lapsed)
			var forgotten error
			var wg sync.WaitGroup
			wg.Go(func() {
				defer GinkgoRecover()
				forgotten = s.Forget(ctx, owner)
			})
			won := s.race(ctx, owner.WorkID, 4)
			wg.Wait()

			Expect(won).To(HaveLen(1))
			exit := backend.ExitNone // forgotten before it was taken
			if forgotten != nil {
				Expect(forgotten).To(MatchError(backend.ErrFenced))
				exit = backend.ExitExpired
			}
			Expect(s.read(ctx, won[0]).PrevExit).To(Equal(exit))
		}
	})
}

// renewAgainstRelease hands one lease on round by round, each time releasing it
// while it is being renewed.
func (s *subject) renewAgainstRelease(ctx context.Context, rounds int) {
	GinkgoHelper()
	work, previous := newWorkID(), backend.Checkpoint{PrevExit: backend.ExitNone}
	for round := range rounds {
		holder := "holder-" + strconv.Itoa(round%2)
		owner := s.take(ctx, work, holder, live)
		Expect(s.read(ctx, owner)).To(Equal(previous), "round %d", round)

		var released atomic.Bool
		renewing, last := make(chan struct{}), make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			defer close(last) // after a panic nobody waits
			close(renewing)
			for {
				after := released.Load()
				if err := s.Renew(ctx, owner, live); err != nil || after {
					last <- err
					return
				}
				runtime.Gosched() // let Release have the lock, too
			}
		}()
		<-renewing
		Expect(s.Release(ctx, owner, backend.ExitFinished)).To(Succeed(), "round %d", round)
		released.Store(true)
		Expect(<-last).To(MatchError(backend.ErrLeaseExpired), "round %d", round)
		previous = backend.Checkpoint{PrevExit: backend.ExitFinished, PrevHolderID: holder}
	}
}

// race lets n holders acquire at once and returns the leases that they got. All
// others were told that it is held.
func (s *subject) race(ctx context.Context, workID string, n int) []backend.LeaseRecord {
	GinkgoHelper()
	var (
		mu      sync.Mutex
		won     []backend.LeaseRecord
		failed  error
		start   = make(chan struct{})
		runners sync.WaitGroup
	)
	for i := range n {
		runners.Go(func() {
			defer GinkgoRecover()
			<-start
			rec, err := s.Acquire(ctx, workID, "runner-"+strconv.Itoa(i), live)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, rec)
			case !errors.Is(err, backend.ErrLeaseHeld):
				failed = errors.Join(failed, err)
			}
		})
	}
	close(start)
	runners.Wait()
	Expect(failed).NotTo(HaveOccurred())
	return won
}
