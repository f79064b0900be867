package pool_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/pool"
)

// term is what a slot's function does, and for how long.
type term func(ctx context.Context, s *site, token worklease.Token) error

func returns(err error) term {
	return func(context.Context, *site, worklease.Token) error { return err }
}

func returnsAfter(d time.Duration, err error) term {
	return func(context.Context, *site, worklease.Token) error {
		<-time.After(d)
		return err
	}
}

func untilDone(err error) term {
	return func(ctx context.Context, _ *site, _ worklease.Token) error {
		<-ctx.Done()
		return err
	}
}

// robbed goes on with work that somebody takes away from it at once.
func robbed(work term) term {
	return func(ctx context.Context, s *site, token worklease.Token) error {
		Expect(s.holder("us").Forget(bg, token)).To(Succeed())
		return work(ctx, s, token)
	}
}

// tired is a PermanentError that says that it is none.
type tired struct{ error }

func (tired) Permanent() bool { return false }

// spent is a PermanentError of a stranger's making.
type spent struct{}

func (spent) Error() string   { return "spent" }
func (spent) Permanent() bool { return true }

var _ = Describe("What follows a run", func() {
	well := func(*site) {}
	failing := func(op inject.Op) func(*site) {
		return func(s *site) { s.faults.On(op, inject.Times(1, inject.Fail(errNet))) }
	}
	unrenewed := func(s *site) { s.faults.On(inject.Renew, inject.Fail(errNet)) }

	// start runs a pool of one slot, whose function does what first says and
	// from its second call on returns nil at once.
	start := func(s *site, first term) error {
		ctx, cancel := context.WithTimeout(bg, 10*time.Minute)
		defer cancel()
		runs := 0
		return s.pool(func(ctx context.Context, _ string, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			if runs++; runs > 1 {
				return nil, nil
			}
			return []byte("state"), first(ctx, s, token)
		}).Run(ctx)
	}

	type wait struct{ least, most time.Duration }
	exactly := func(d time.Duration) wait { return wait{d, d} }
	jittered := func(d time.Duration) wait { return wait{d, d + d/5} }

	DescribeTable("for a slot that goes on",
		func(prepare func(*site), first term, lasts time.Duration, then wait, told ...string) {
			bubble.Run(func() {
				s := newSite("a")
				prepare(s)
				before := s.faults.Count(inject.Acquire)
				Expect(start(s, first)).To(Succeed())

				tries := s.faults.Calls(inject.Acquire)[before:]
				Expect(len(tries)).To(BeNumerically(">=", 2))
				Expect(tries[1].Start.Sub(tries[0].Start) - lasts).To(And(
					BeNumerically(">=", then.least), BeNumerically("<=", then.most)))
				Expect(s.told.names()).To(HaveExactElements(told))
			})
		},
		Entry("nil: again after RerunInterval", well, returns(nil), zero, jittered(rerun)),
		Entry("an error: again after BackoffInterval", well, returns(errWork), zero, exactly(backoff), "Backoff"),
		Entry("an error that matches ErrLeaseHeld: likewise", well, returns(worklease.ErrLeaseHeld), zero, exactly(backoff), "Backoff"),
		Entry("a PermanentError that is none: likewise", well, returns(tired{errWork}), zero, exactly(backoff), "Backoff"),

		Entry("ErrFenced after a short term: lost, again after BackoffInterval", well,
			returns(fmt.Errorf("write: %w", worklease.ErrFenced)), zero, exactly(backoff), "Lost"),
		Entry("ErrFenced after a term of BackoffInterval: lost, again at once", well,
			returnsAfter(backoff, worklease.ErrFenced), backoff, exactly(0), "Lost"),
		Entry("ErrFenced just before that: again after BackoffInterval", well,
			returnsAfter(backoff-1, worklease.ErrFenced), backoff-1, exactly(backoff), "Lost"),
		Entry("a PermanentError that is ErrFenced: lost", well,
			returns(pool.Permanent(worklease.ErrFenced)), zero, exactly(backoff), "Lost"),
		Entry("fenced by the renewal: lost, again at once", well,
			robbed(untilDone(errWork)), ttl/2, exactly(0), "Lost"),
		Entry("fenced by the final checkpoint: lost", well, robbed(returns(nil)), zero, exactly(backoff), "Lost"),
		Entry("ErrRetire of a fenced term: lost", well, robbed(returns(worklease.ErrRetire)), zero, exactly(backoff), "Lost"),

		Entry("a window that ran out: lost, again after BackoffInterval", unrenewed,
			untilDone(errWork), ttl, exactly(backoff), "Lost", "Backoff"),
		Entry("a window that ran out under nil: likewise", unrenewed,
			untilDone(nil), ttl, exactly(backoff), "Lost", "Backoff"),
		Entry("a window that ran out under ErrRetire: likewise", unrenewed,
			untilDone(worklease.ErrRetire), ttl, exactly(backoff), "Lost", "Backoff"),

		Entry("held by somebody else: again after IdleInterval, without a word", func(s *site) {
			Expect(s.holder("them").Acquire(bg, "a")).Error().NotTo(HaveOccurred())
		}, returns(nil), zero, jittered(idle)),
		Entry("an acquisition that failed: again after BackoffInterval", failing(inject.Acquire),
			returns(nil), zero, exactly(backoff), "Backoff"),
		Entry("a checkpoint that cannot be read: likewise", failing(inject.ReadCheckpoint),
			returns(nil), zero, exactly(backoff), "Backoff"),
		Entry("a final checkpoint that failed: likewise", failing(inject.Checkpoint),
			returns(nil), zero, exactly(backoff), "Backoff"),
		Entry("a release that failed: likewise", failing(inject.Release),
			returns(nil), zero, exactly(backoff), "Backoff"),
		Entry("a retirement that failed: likewise", failing(inject.Release),
			returns(worklease.ErrRetire), zero, exactly(backoff), "Backoff"),
	)

	DescribeTable("for a slot that ends",
		func(prepare func(*site), first term, result error, exit worklease.ExitMode, told ...string) {
			bubble.Run(func() {
				s := newSite("a")
				prepare(s)
				if err := start(s, first); result == nil {
					Expect(err).NotTo(HaveOccurred())
				} else {
					Expect(err).To(MatchError(result))
				}
				Expect(s.faults.Count(inject.Acquire)).To(Equal(1))
				Expect(s.told.names()).To(HaveExactElements(told))
				Expect(s.left("a").PrevExit).To(Equal(exit))
			})
		},
		Entry("ErrRetire: retired", well, returns(worklease.ErrRetire), nil, worklease.ExitRetired, "Retired"),
		Entry("a wrapped ErrRetire: retired", well, returns(fmt.Errorf("done: %w", worklease.ErrRetire)), nil, worklease.ExitRetired, "Retired"),
		Entry("ErrRetire and a PermanentError: retired", well,
			returns(pool.Permanent(worklease.ErrRetire)), nil, worklease.ExitRetired, "Retired"),
		Entry("a PermanentError: dead", well, returns(pool.Permanent(errWork)), pool.ErrAllSlotsDead, worklease.ExitAbandoned, "Dead"),
		Entry("a stranger's PermanentError: dead", well,
			returns(fmt.Errorf("step 3: %w", spent{})), pool.ErrAllSlotsDead, worklease.ExitAbandoned, "Dead"),
		Entry("a PermanentError of a window that ran out: dead", unrenewed,
			untilDone(pool.Permanent(errWork)), pool.ErrAllSlotsDead, worklease.ExitExpired, "Dead"),
		Entry("ctx ended: nothing is told", well, untilDone(errWork), nil, worklease.ExitAbandoned),
		Entry("ctx ended under a PermanentError: not counted as dead", well,
			untilDone(pool.Permanent(errWork)), nil, worklease.ExitAbandoned),
		Entry("ctx ended under ErrRetire: retired all the same", well,
			untilDone(worklease.ErrRetire), nil, worklease.ExitRetired, "Retired"),
	)

	It("has an id that is freed at once, and goes on polling while it is held", func() {
		bubble.Run(func() {
			s := newSite("a")
			them := s.holder("them")
			token, err := them.Acquire(bg, "a")
			Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithTimeout(bg, ttl/2)
			defer cancel()
			var freed, entered time.Time
			time.AfterFunc(ttl/4, func() {
				defer GinkgoRecover()
				freed = time.Now()
				Expect(them.Release(bg, token, worklease.ExitFinished)).To(Succeed())
			})
			Expect(s.pool(func(ctx context.Context, _ string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				entered = time.Now()
				<-ctx.Done()
				return nil, nil
			}).Run(ctx)).To(Succeed())
			Expect(entered).To(Equal(freed))
			Expect(s.faults.Count(inject.Acquire)).To(Equal(4), "theirs, two polls, and the one that was told")
		})
	})

	It("has an id that lapses within 100 ms, however long it idles", func() {
		bubble.Run(func() {
			s := newSite("a")
			s.cfg.IdleInterval = time.Hour
			Expect(s.holder("them").Acquire(bg, "a")).Error().NotTo(HaveOccurred())
			start := time.Now()
			ctx, cancel := context.WithTimeout(bg, 2*ttl)
			defer cancel()
			var entered time.Time
			Expect(s.pool(func(ctx context.Context, _ string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				entered = time.Now()
				<-ctx.Done()
				return nil, nil
			}).Run(ctx)).To(Succeed())
			Expect(entered.Sub(start)).To(And(BeNumerically(">=", ttl), BeNumerically("<=", ttl+100*time.Millisecond)))
		})
	})

	It("32a: a failing work function makes two processes try at most once a backoff each", func() {
		bubble.Run(func() {
			shared := newSite("a")
			ctx, cancel := context.WithTimeout(bg, 20*time.Second)
			defer cancel()
			var tries [2]*inject.Faults
			var runs [2][]time.Time
			ended := make(chan error, 2)
			for i, id := range []string{"us", "them"} {
				faults, b := inject.Around(shared.backend)
				tries[i] = faults
				cfg := shared.cfg
				cfg.IdleInterval, cfg.BackoffInterval = time.Second, time.Second
				p, err := pool.New(holder(b, id, ttl), cfg, func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					runs[i] = append(runs[i], time.Now())
					return nil, errWork
				})
				Expect(err).NotTo(HaveOccurred())
				go func() { ended <- p.Run(ctx) }()
			}
			Expect(<-ended).To(Succeed())
			Expect(<-ended).To(Succeed())

			Expect(len(runs[0]) + len(runs[1])).To(BeNumerically(">=", 20))
			for i, faults := range tries {
				for n := 1; n < len(runs[i]); n++ {
					Expect(runs[i][n].Sub(runs[i][n-1])).To(BeNumerically(">=", time.Second))
				}
				// And one try that was refused, before each that was not.
				Expect(faults.Count(inject.Acquire)).To(BeNumerically("<=", 2*len(runs[i])+2))
			}
		})
	})

	It("32b: an id that is held elsewhere is polled at the idle interval plus jitter only", func() {
		bubble.Run(func() {
			s := newSite("a")
			them := s.holder("them")
			token, err := them.Acquire(bg, "a")
			Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithTimeout(bg, 2*time.Minute)
			defer cancel()
			_, stop := them.StartRenewal(ctx, token)
			defer stop()

			Expect(s.pool(func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				panic("entered")
			}).Run(ctx)).To(Succeed())
			Expect(s.told.all()).To(BeEmpty())
			calls := s.faults.Calls(inject.Acquire)[1:]
			Expect(len(calls)).To(BeNumerically(">=", 25))
			gaps := map[time.Duration]bool{}
			for i := 1; i < len(calls); i++ {
				gap := calls[i].Start.Sub(calls[i-1].Start)
				Expect(gap).To(And(BeNumerically(">=", idle), BeNumerically("<=", idle+idle/5)))
				gaps[gap] = true
			}
			Expect(len(gaps)).To(BeNumerically(">", 1), "slots spread")
		})
	})
})

const zero = time.Duration(0)
