package worklease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

var _ = Describe("New", func() {
	DescribeTable("refuses a configuration, naming field and value",
		func(b backend.Backend, cfg worklease.Config, says ...string) {
			lease, err := worklease.New(b, cfg)
			Expect(lease).To(BeNil())
			Expect(err).To(MatchError(worklease.ErrConfigInvalid))
			for _, text := range says {
				Expect(err).To(MatchError(ContainSubstring(text)))
			}
		},
		Entry("no backend", nil, worklease.Config{TTL: ttl, HolderID: "a"}, "backend is nil"),
		Entry("a typed nil backend", (*memory.Backend)(nil), worklease.Config{TTL: ttl, HolderID: "a"}, "backend is nil"),
		Entry("17a: no holder", memory.New(), worklease.Config{TTL: ttl}, "HolderID is empty"),
		Entry("17a: a holder that is not UTF-8", memory.New(), worklease.Config{TTL: ttl, HolderID: "a\xff"}, `HolderID "a\xff"`),
		Entry("17a: a holder with NUL", memory.New(), worklease.Config{TTL: ttl, HolderID: "a\x00"}, `HolderID "a\x00"`),
		Entry("17a: a holder too long", memory.New(), worklease.Config{TTL: ttl, HolderID: strings.Repeat("a", 1025)},
			"HolderID", "1025 bytes", "1024"),
		Entry("a TTL without its unit", memory.New(), worklease.Config{TTL: 30, HolderID: "a"}, "TTL 30ns is below 1ms"),
		Entry("everything at once", nil, worklease.Config{TTL: -1, HolderID: ""},
			"backend is nil", "HolderID is empty", "TTL -1ns is below 1ms"),
	)

	DescribeTable("3a: a TTL of zero, below zero or under a millisecond is refused", func(d time.Duration) {
		_, err := worklease.New(memory.New(), worklease.Config{TTL: d, HolderID: "a"})
		Expect(err).To(MatchError(worklease.ErrConfigInvalid))
	},
		Entry("3a: zero", time.Duration(0)),
		Entry("3a: below zero", -time.Minute),
		Entry("3a: under a millisecond", time.Millisecond-1),
	)

	It("says that a missing backend is that", func() {
		_, err := worklease.New(nil, worklease.Config{TTL: ttl, HolderID: "a"})
		Expect(err).To(MatchError(worklease.ErrNilBackend))
		_, err = worklease.New((*memory.Backend)(nil), worklease.Config{TTL: ttl, HolderID: "a"})
		Expect(err).To(MatchError(worklease.ErrNilBackend))
		_, err = worklease.New(memory.New(), worklease.Config{})
		Expect(err).NotTo(MatchError(worklease.ErrNilBackend))
	})

	It("takes the shortest TTL, the longest holder and an observer that cannot be compared", func() {
		_, err := worklease.New(memory.New(), worklease.Config{
			TTL: time.Millisecond, HolderID: strings.Repeat("a", 1024), Observer: uncomparable{calls: []string{}},
		})
		Expect(err).NotTo(HaveOccurred())
	})

	It("does no I/O", func() {
		faults, b := inject.Around(memory.New())
		newLease(b, "a")
		for _, op := range []inject.Op{inject.Acquire, inject.ReadCheckpoint, inject.Sweep} {
			Expect(faults.Count(op)).To(BeZero())
		}
	})
})

type uncomparable struct {
	worklease.NoopObserver
	calls []string
}

var _ = Describe("Acquire", func() {
	It("returns a token with the backend's record", func(ctx SpecContext) {
		token, err := newLease(memory.New(), "a").Acquire(ctx, "w")
		Expect(err).NotTo(HaveOccurred())
		Expect(token.WorkID()).To(Equal("w"))
		Expect(token.HolderID()).To(Equal("a"))
		Expect(token.FencingToken()).To(Equal(uint64(1)))
		Expect(token.ExpiresAt()).To(BeTemporally("~", time.Now().Add(ttl), time.Minute))
	})

	DescribeTable("says that a lease is held, by whom and for how long", func(holder string) {
		b := memory.New()
		acquire(newLease(b, "a"), "w")
		_, err := newLease(b, holder).Acquire(background, "w")
		Expect(err).To(MatchError(worklease.ErrLeaseHeld))
		var held *worklease.HeldError
		Expect(errors.As(err, &held)).To(BeTrue())
		Expect(held.HolderID).To(Equal("a"))
		Expect(held.Remaining).To(And(BeNumerically(">", 0), BeNumerically("<=", ttl)))
	},
		Entry("by another", "b"),
		Entry("by the caller itself", "a"),
	)

	DescribeTable("17a: a work ID that some backend cannot store is refused before the backend is reached",
		func(workID, says string) {
			var seen recorder.Recorder
			faults, b := inject.Around(memory.New())
			_, err := newLease(b, "a", &seen).Acquire(background, workID, worklease.WithWaitForLease())
			Expect(err).To(MatchError(And(HavePrefix("worklease: Acquire: work ID "), ContainSubstring(says))))
			Expect(err).To(matchNoSentinel())
			Expect(faults.Count(inject.Acquire)).To(BeZero())
			Expect(seen.Entries()).To(BeEmpty())
		},
		Entry("17a: empty", "", "is empty"),
		Entry("17a: not UTF-8", "w\xff", "UTF-8"),
		Entry("17a: NUL", "w\x00", "NUL"),
		Entry("17a: too long", strings.Repeat("w", 1025), "1025 bytes"),
	)

	It("does nothing when ctx is done", func() {
		faults, b := inject.Around(memory.New())
		Expect(failure(newLease(b, "a").Acquire(within(0), "w", worklease.WithWaitForLease()))).
			To(MatchError(context.DeadlineExceeded))
		Expect(faults.Count(inject.Acquire)).To(BeZero())
	})

	DescribeTable("hands out a token with at least 0.9 TTL of its window left",
		func(takes time.Duration, renewals int, left time.Duration) {
			inBubble(func() {
				faults, b := inject.Around(memory.New())
				faults.On(inject.Acquire, inject.Slow(takes))
				lease := newLease(b, "a")
				token := acquire(lease, "w")
				Expect(faults.Count(inject.Renew)).To(Equal(renewals))

				renewCtx, stop := lease.StartRenewal(within(time.Minute), token)
				defer stop()
				deadline, ok := worklease.LeaseWindow(renewCtx)
				Expect(ok).To(BeTrue())
				Expect(time.Until(deadline)).To(Equal(left))
			})()
		},
		Entry("from an attempt that took a tenth", ttl/10, 0, ttl*9/10),
		Entry("renewed once after one that took longer", ttl/10+1, 1, ttl),
		Entry("renewed once after one that took nearly all of it", ttl-1, 1, ttl),
	)

	It("hands it out so in spite of a slow observer", inBubble(func() {
		faults, b := inject.Around(memory.New())
		lease := newLease(b, "a", onAcquire{do: func() { bubble.Sleep(ttl / 2) }})
		acquire(lease, "w")
		Expect(faults.Count(inject.Renew)).To(Equal(1))
	}))

	DescribeTable("gives back what it could not renew after a slow attempt, and calls that no verdict",
		func(fault inject.Fault, takes time.Duration) {
			inBubble(func() {
				faults, b := inject.Around(memory.New())
				faults.On(inject.Acquire, inject.Times(1, inject.Slow(ttl/2)))
				faults.On(inject.Renew, fault)
				start := time.Now()
				_, err := newLease(b, "a").Acquire(background, "w")
				Expect(err).To(matchNoSentinel())
				Expect(time.Since(start)).To(Equal(takes))
				settled()
				next := newLease(b, "b")
				Expect(read(next, acquire(next, "w")).PrevExit).To(Equal(worklease.ExitNone))
			})()
		},
		Entry("a network error", inject.Fail(errNet), ttl/2),
		Entry("fenced", inject.Fail(backend.ErrFenced), ttl/2),
		Entry("expired", inject.Fail(backend.ErrLeaseExpired), ttl/2),
		Entry("no answer", hang, ttl),
	)

	It("reports the end of ctx during that renewal as such", inBubble(func() {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Slow(2*time.Second))
		faults.On(inject.Renew, hang)
		Expect(failure(newLease(b, "a").Acquire(within(3*time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
	}))

	DescribeTable("leaves no lease behind when its caller is cancelled, and does not keep that one waiting",
		func(mode worklease.ExitMode, hide func(backend.Backend) backend.Backend) {
			inBubble(func() {
				inner := memory.New()
				before := newLease(inner, "before")
				if mode != worklease.ExitNone {
					token := acquire(before, "w")
					Expect(before.Checkpoint(background, token, []byte("state"))).To(Succeed())
					Expect(before.Release(background, token, mode)).To(Succeed())
				}
				faults, b := inject.Around(hide(inner))
				faults.On(inject.Acquire, inject.Slow(2*time.Second))
				start := time.Now()
				err := failure(newLease(b, "a").Acquire(within(time.Second), "w"))
				Expect(err).To(MatchError(context.DeadlineExceeded))
				Expect(time.Since(start)).To(Equal(time.Second))

				bubble.Sleep(time.Second)
				settled()
				next := newLease(inner, "next")
				found := read(next, acquire(next, "w"))
				Expect(found.PrevExit).To(Equal(mode))
				if mode != worklease.ExitNone {
					Expect(found.State).To(Equal([]byte("state")))
				}
			})()
		},
		Entry("never held", worklease.ExitNone, restoring),
		Entry("finished", worklease.ExitFinished, restoring),
		Entry("abandoned", worklease.ExitAbandoned, restoring),
		Entry("retired", worklease.ExitRetired, restoring),
		Entry("never held, without a Restorer", worklease.ExitNone, hiding),
		Entry("finished, without a Restorer", worklease.ExitFinished, hiding),
		Entry("abandoned, without a Restorer", worklease.ExitAbandoned, hiding),
		Entry("retired, without a Restorer", worklease.ExitRetired, hiding),
	)

	It("5c: a reply that comes after the window has closed hands out no token", inBubble(func() {
		inner := memory.New()
		before := newLease(inner, "before")
		Expect(before.Release(background, acquire(before, "w"), worklease.ExitRetired)).To(Succeed())
		faults, b := inject.Around(inner)
		faults.On(inject.Acquire, inject.Slow(ttl+time.Second))

		start := time.Now()
		token, err := newLease(b, "a").Acquire(background, "w")
		Expect(token).To(BeZero())
		Expect(err).To(matchNoSentinel())
		Expect(time.Since(start)).To(Equal(ttl))

		bubble.Sleep(time.Second)
		settled()
		next := newLease(inner, "next")
		Expect(read(next, acquire(next, "w"))).To(And(
			HaveField("PrevExit", worklease.ExitRetired), HaveField("PrevHolderID", "before")))
	}))

	It("has at most one call for a work ID out", inBubble(func() {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Slow(5*time.Second))
		lease := newLease(b, "a")
		for range 5 {
			Expect(failure(lease.Acquire(within(100*time.Millisecond), "w"))).To(MatchError(context.DeadlineExceeded))
		}
		Expect(faults.Count(inject.Acquire)).To(Equal(1))
		acquire(lease, "another")
	}))
})

func restoring(b backend.Backend) backend.Backend { return b }
func hiding(b backend.Backend) backend.Backend    { return unrestoring{b} }

// onAcquire is an observer that does one thing after an acquisition.
type onAcquire struct {
	worklease.NoopObserver
	do func()
}

func (o onAcquire) OnAcquire(context.Context, worklease.AcquireEvent) { o.do() }

var _ = Describe("Waiting for a lease", func() {
	DescribeTable("tries again after half to the whole of the poll interval",
		func(interval time.Duration, opts ...worklease.AcquireOption) {
			inBubble(func() {
				inner := memory.New()
				faults, b := inject.Around(inner)
				acquire(newLease(inner, "a"), "w")
				Expect(failure(newLease(b, "b").Acquire(within(ttl-1), "w", append(opts, worklease.WithWaitForLease())...))).
					To(MatchError(context.DeadlineExceeded))

				calls := faults.Calls(inject.Acquire)
				Expect(len(calls)).To(BeNumerically(">", int(ttl/interval)-1))
				for i := range calls[1:] {
					wait := calls[i+1].Start.Sub(calls[i].Start)
					Expect(wait).To(And(BeNumerically(">=", interval/2), BeNumerically("<=", interval)))
				}
			})()
		},
		Entry("of 2 s by default", 2*time.Second),
		Entry("of the option", 300*time.Millisecond, worklease.WithPollInterval(300*time.Millisecond)),
		Entry("of 2 s for an option of zero", 2*time.Second, worklease.WithPollInterval(0)),
		Entry("of 2 s for an option below zero", 2*time.Second, worklease.WithPollInterval(-time.Second)),
	)

	It("ends at once at any other error", inBubble(func() {
		inner := memory.New()
		faults, b := inject.Around(inner)
		acquire(newLease(inner, "a"), "w")
		faults.On(inject.Acquire, inject.Sequence(inject.Pass, inject.Fail(errNet)))
		Expect(failure(newLease(b, "b").Acquire(background, "w", worklease.WithWaitForLease()))).To(MatchError(errNet))
		Expect(faults.Count(inject.Acquire)).To(Equal(2))
	}))

	It("5b: a wait that is cancelled between polls ends at once with the context's error", inBubble(func() {
		b := memory.New()
		acquire(newLease(b, "a"), "w")
		for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
			ctx := within(time.Second)
			if errors.Is(end, context.Canceled) {
				cancelled, cancel := context.WithCancel(background)
				time.AfterFunc(time.Second, cancel)
				ctx = cancelled
			}
			start := time.Now()
			_, err := newLease(b, "b").Acquire(ctx, "w", worklease.WithWaitForLease(), worklease.WithPollInterval(time.Hour))
			Expect(time.Since(start)).To(Equal(time.Second))
			Expect(err).To(And(MatchError(end), Not(MatchError(worklease.ErrLeaseHeld))))
		}
	}))

	It("5b: a token from a wait has at least 0.9 TTL left", inBubble(func() {
		inner := memory.New()
		faults, b := inject.Around(inner)
		acquire(newLease(inner, "a"), "w")
		faults.On(inject.Acquire, inject.Slow(3*time.Second))
		lease := newLease(b, "b")
		token := acquire(lease, "w", worklease.WithWaitForLease(), worklease.WithPollInterval(100*time.Millisecond))
		renewCtx, stop := lease.StartRenewal(within(time.Minute), token)
		defer stop()
		deadline, ok := worklease.LeaseWindow(renewCtx)
		Expect(ok).To(BeTrue())
		Expect(time.Until(deadline)).To(BeNumerically(">=", ttl*9/10))
	}))

	It("16a: after a Release the waiter holds the lease within 300 ms", inBubble(func() {
		b := memory.New()
		long := func(holder string) worklease.Lease {
			lease, err := worklease.New(b, worklease.Config{TTL: time.Minute, HolderID: holder})
			Expect(err).NotTo(HaveOccurred())
			return lease
		}
		a := long("a")
		token := acquire(a, "w")
		var released time.Time
		time.AfterFunc(20*time.Second+time.Millisecond, func() {
			defer GinkgoRecover()
			released = time.Now()
			Expect(a.Release(background, token, worklease.ExitFinished)).To(Succeed())
		})
		acquire(long("b"), "w", worklease.WithWaitForLease(), worklease.WithPollInterval(200*time.Millisecond))
		Expect(time.Since(released)).To(BeNumerically("<=", 300*time.Millisecond))
	}))

	It("16b: after a crash the waiter holds the lease between TTL and TTL + poll and reads the last state", inBubble(func() {
		const poll = 200 * time.Millisecond
		b := memory.New()
		a := newLease(b, "a")
		token := acquire(a, "w")
		Expect(a.Checkpoint(background, token, []byte("step 1"))).To(Succeed())
		bubble.Sleep(time.Second)
		Expect(a.Checkpoint(background, token, []byte("step 2"))).To(Succeed())
		crashed := time.Now()

		next := newLease(b, "b")
		taken := acquire(next, "w", worklease.WithWaitForLease(), worklease.WithPollInterval(poll))
		Expect(time.Since(crashed)).To(And(BeNumerically(">=", ttl), BeNumerically("<=", ttl+poll)))
		Expect(read(next, taken)).To(Equal(worklease.Checkpoint{
			State: []byte("step 2"), PrevExit: worklease.ExitExpired, PrevHolderID: "a",
		}))
	}))

	It("asks again when the lease lapses, where that comes before the poll", inBubble(func() {
		inner := memory.New()
		faults, b := inject.Around(inner)
		acquire(newLease(inner, "a"), "w")
		start := time.Now()
		acquire(newLease(b, "b"), "w", worklease.WithWaitForLease(), worklease.WithPollInterval(time.Minute))
		Expect(time.Since(start)).To(And(BeNumerically(">=", ttl), BeNumerically("<=", ttl+100*time.Millisecond)))
		Expect(faults.Count(inject.Acquire)).To(Equal(2))
	}))

	It("polls where the backend does not say when that is", inBubble(func() {
		inner := memory.New()
		acquire(newLease(inner, "a"), "w")
		start := time.Now()
		acquire(newLease(terse{inner}, "b"), "w", worklease.WithWaitForLease(), worklease.WithPollInterval(time.Minute))
		Expect(time.Since(start)).To(And(BeNumerically(">=", 30*time.Second), BeNumerically("<=", time.Minute)))
	}))

	DescribeTable("has the lease at the moment when it is freed", func(free func(worklease.Lease, worklease.Token)) {
		bubble.Run(func() {
			b := memory.New()
			a := newLease(b, "a")
			token := acquire(a, "w")
			var freed time.Time
			time.AfterFunc(3*time.Second, func() {
				freed = time.Now()
				free(a, token)
			})
			acquire(newLease(b, "b"), "w", worklease.WithWaitForLease(), worklease.WithPollInterval(time.Hour))
			Expect(time.Now()).To(Equal(freed))
		})
	},
		Entry("by Release", func(a worklease.Lease, token worklease.Token) {
			defer GinkgoRecover()
			Expect(a.Release(background, token, worklease.ExitFinished)).To(Succeed())
		}),
		Entry("by Forget", func(a worklease.Lease, token worklease.Token) {
			defer GinkgoRecover()
			Expect(a.Forget(background, token)).To(Succeed())
		}),
	)

	It("misses nothing that is freed while an attempt is under way", inBubble(func() {
		inner := memory.New()
		a := newLease(inner, "a")
		token := acquire(a, "w")
		faults, b := inject.Around(inner)
		// Freed after the store has answered and before the waiter hears it.
		faults.On(inject.Acquire, inject.Times(1, func(ctx context.Context, call inject.Call) error {
			err := call.Do(ctx)
			Expect(a.Release(background, token, worklease.ExitFinished)).To(Succeed())
			return err
		}))
		start := time.Now()
		acquire(newLease(b, "b"), "w", worklease.WithWaitForLease(), worklease.WithPollInterval(time.Hour))
		Expect(time.Since(start)).To(BeZero())
	}))

	It("takes a hint for no fact, and polls when it would have without", inBubble(func() {
		const poll = 4 * time.Second
		inner := memory.New()
		a := newLease(inner, "a")
		renewCtx, stop := a.StartRenewal(within(time.Hour), acquire(a, "w"))
		defer stop()
		faults, b := inject.Around(liar{inner, time.Second, 1000})
		Expect(failure(newLease(b, "b").Acquire(within(time.Minute), "w", worklease.WithWaitForLease(), worklease.WithPollInterval(poll)))).
			To(MatchError(context.DeadlineExceeded))
		Expect(renewCtx.Err()).NotTo(HaveOccurred())

		// A hint a second, and a poll after half to the whole of the interval.
		calls := faults.Calls(inject.Acquire)
		start, polls := calls[0].Start, 0
		for _, call := range calls[1:] {
			if call.Start.Sub(start)%time.Second != 0 {
				polls++
			}
		}
		Expect(len(calls) - polls).To(BeNumerically("~", 60, 1))
		Expect(polls).To(And(BeNumerically(">=", 15), BeNumerically("<=", 30)))
	}))

	It("is not longer for hints that are wrong", inBubble(func() {
		const poll = 4 * time.Second
		inner := memory.New()
		a := newLease(inner, "a")
		token := acquire(a, "w")
		_, stop := a.StartRenewal(within(time.Hour), token)
		defer stop()
		time.AfterFunc(30500*time.Millisecond, func() {
			defer GinkgoRecover()
			stop()
			Expect(a.Release(background, token, worklease.ExitFinished)).To(Succeed())
		})
		start := time.Now()
		// The last hint comes at 27 s: the poll has to find that the lease is free.
		acquire(newLease(liar{inner, 3 * time.Second, 9}, "b"), "w", worklease.WithWaitForLease(), worklease.WithPollInterval(poll))
		Expect(time.Since(start)).To(BeNumerically("<=", 30500*time.Millisecond+poll))
	}))

	It("of five hundred for one lease that is freed: one has it, and the others make one attempt each", inBubble(func() {
		const waiters = 500
		inner := memory.New()
		a := newLease(inner, "a")
		token := acquire(a, "w")
		faults, b := inject.Around(inner)
		ctx := within(5 * time.Second)
		won := make(chan time.Time, waiters)
		for range waiters {
			lease := newLease(b, "b")
			go func() {
				defer GinkgoRecover()
				_, err := lease.Acquire(ctx, "w", worklease.WithWaitForLease(), worklease.WithPollInterval(time.Hour))
				if err == nil {
					won <- time.Now()
				}
			}()
		}
		settled()
		Expect(faults.Count(inject.Acquire)).To(Equal(waiters))
		freed := time.Now()
		Expect(a.Release(background, token, worklease.ExitFinished)).To(Succeed())
		bubble.Sleep(4 * time.Second)
		Expect(won).To(HaveLen(1))
		Expect((<-won).Sub(freed)).To(BeNumerically("<=", 50*time.Millisecond))
		calls := faults.Calls(inject.Acquire)[waiters:]
		Expect(len(calls)).To(BeNumerically("<=", waiters))

		busiest := map[time.Duration]int{}
		for _, call := range calls {
			busiest[call.Start.Sub(freed)/(50*time.Millisecond)]++
		}
		for _, n := range busiest {
			Expect(n).To(BeNumerically("<=", waiters/4), "spread over half a second")
		}
	}))

	It("30b: five hundred waiters that started together spread over their poll interval", inBubble(func() {
		const (
			waiters = 500
			seconds = 8
			slot    = 100 * time.Millisecond
		)
		inner := memory.New()
		acquire(newLease(inner, "a"), "w")
		faults, b := inject.Around(inner)
		start := time.Now()
		ctx := within(seconds * time.Second)
		for range waiters {
			lease := newLease(b, "b")
			go func() {
				defer GinkgoRecover()
				Expect(failure(lease.Acquire(ctx, "w", worklease.WithWaitForLease(), worklease.WithPollInterval(time.Second)))).
					To(MatchError(context.DeadlineExceeded))
			}()
		}
		bubble.Sleep(seconds * time.Second)
		settled()

		slots := make([]int, seconds*int(time.Second/slot)+1)
		for _, call := range faults.Calls(inject.Acquire) {
			slots[call.Start.Sub(start)/slot]++
		}
		for second := 1; second < seconds; second++ {
			in := slots[second*10 : second*10+10]
			tries := 0
			for _, n := range in {
				tries += n
			}
			Expect(tries).To(BeNumerically(">=", waiters))
			Expect(in).To(HaveEach(BeNumerically("<=", tries*30/100)))
		}
	}))

	DescribeTable("is what HasWaitForLease finds among options", func(want bool, opts ...worklease.AcquireOption) {
		Expect(worklease.HasWaitForLease(opts)).To(Equal(want))
	},
		Entry("none", false),
		Entry("another", false, worklease.WithPollInterval(time.Second)),
		Entry("it alone", true, worklease.WithWaitForLease()),
		Entry("it and another", true, worklease.WithWaitForLease(), worklease.WithPollInterval(time.Second)),
	)
})

// terse does not say who holds a lease, nor for how long.
type terse struct{ backend.Backend }

func (t terse) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	rec, err := t.Backend.Acquire(ctx, workID, holderID, ttl)
	if errors.Is(err, backend.ErrLeaseHeld) {
		err = backend.ErrLeaseHeld
	}
	return rec, err
}

// liar tells those who wait, so many times, at every interval that the lease may be
// free.
type liar struct {
	backend.Backend
	interval time.Duration
	times    int
}

func (l liar) Subscribe(string) (free <-chan int, stop func()) {
	told, done := make(chan int, 1), make(chan struct{})
	go func() {
		for range l.times {
			select {
			case <-time.After(l.interval):
				told <- 1
			case <-done:
				return
			}
		}
	}()
	return told, sync.OnceFunc(func() { close(done) })
}

// operation is a call on a token.
type operation struct {
	name string
	op   inject.Op
	call func(context.Context, worklease.Lease, worklease.Token) error
}

var operations = []operation{
	{"ReadCheckpoint", inject.ReadCheckpoint, func(ctx context.Context, l worklease.Lease, t worklease.Token) error {
		_, err := l.ReadCheckpoint(ctx, t)
		return err
	}},
	{"Checkpoint", inject.Checkpoint, func(ctx context.Context, l worklease.Lease, t worklease.Token) error {
		return l.Checkpoint(ctx, t, []byte("state"))
	}},
	{"Renew", inject.Renew, func(ctx context.Context, l worklease.Lease, t worklease.Token) error {
		return l.Renew(ctx, t)
	}},
	{"Release", inject.Release, func(ctx context.Context, l worklease.Lease, t worklease.Token) error {
		return l.Release(ctx, t, worklease.ExitFinished)
	}},
	{"Forget", inject.Forget, func(ctx context.Context, l worklease.Lease, t worklease.Token) error {
		return l.Forget(ctx, t)
	}},
}

var _ = Describe("An operation on a token", func() {
	for _, o := range operations {
		Describe(o.name, func() {
			It("succeeds for the holder", func() {
				lease := newLease(memory.New(), "a")
				Expect(o.call(background, lease, acquire(lease, "w"))).To(Succeed())
			})

			It("is fenced after a takeover", inBubble(func() {
				b := memory.New()
				lease := newLease(b, "a")
				token := acquire(lease, "w")
				bubble.Sleep(ttl)
				acquire(newLease(b, "b"), "w")
				Expect(o.call(background, lease, token)).To(MatchError(worklease.ErrFenced))
			}))

			It("is fenced for the zero Token", func() {
				Expect(o.call(background, newLease(memory.New(), "a"), worklease.Token{})).To(MatchError(worklease.ErrFenced))
			})

			It("names itself, the work ID and the holder in an error that reaches the driver's", func() {
				faults, b := inject.Around(memory.New())
				lease := newLease(b, "a")
				token := acquire(lease, "w")
				faults.On(o.op, inject.Fail(errNet))
				err := o.call(background, lease, token)
				Expect(err).To(MatchError(errNet))
				Expect(err).To(MatchError(`worklease: ` + o.name + `: workID="w" holderID="a": connection reset`))
			})

			It("does nothing when ctx is done", func() {
				faults, b := inject.Around(memory.New())
				lease := newLease(b, "a")
				token := acquire(lease, "w")
				ctx, cancel := context.WithCancel(background)
				cancel()
				Expect(o.call(ctx, lease, token)).To(MatchError(context.Canceled))
				Expect(faults.Count(o.op)).To(BeZero())
			})

			It("ends with ctx although the driver does not", inBubble(func() {
				faults, b := inject.Around(memory.New())
				lease := newLease(b, "a")
				token := acquire(lease, "w")
				faults.On(o.op, hang)
				start := time.Now()
				Expect(o.call(within(time.Second), lease, token)).To(MatchError(context.DeadlineExceeded))
				Expect(time.Since(start)).To(Equal(time.Second))
			}))
		})
	}

	It("names Acquire, the work ID and the Lease's holder in its error", func() {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Fail(errNet))
		Expect(failure(newLease(b, "a").Acquire(background, "w"))).To(And(
			MatchError(errNet), MatchError(`worklease: Acquire: workID="w" holderID="a": connection reset`)))
	})
})

var _ = Describe("Checkpoint", func() {
	It("stores what its caller gave, whatever becomes of the slice after ctx has ended", inBubble(func() {
		faults, b := inject.Around(memory.New())
		lease := newLease(b, "a")
		token := acquire(lease, "w")
		faults.On(inject.Checkpoint, inject.Late(2*time.Second))
		state := []byte("state")
		Expect(lease.Checkpoint(within(time.Second), token, state)).To(MatchError(context.DeadlineExceeded))
		copy(state, "XXXXX")
		bubble.Sleep(time.Second)
		settled()
		Expect(read(lease, token).State).To(Equal([]byte("state")))
	}))

	DescribeTable("that was given up never lands over a later one", func(first inject.Fault, failed types.GomegaMatcher) {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			lease := newLease(b, "a")
			token := acquire(lease, "w")
			faults.On(inject.Checkpoint, inject.Times(1, first))
			Expect(lease.Checkpoint(within(time.Second), token, []byte("given up"))).To(failed)
			Expect(lease.Checkpoint(background, token, []byte("acknowledged"))).To(Succeed())
			bubble.Sleep(3 * time.Second)
			Expect(read(lease, token).State).To(Equal([]byte("acknowledged")))
			Expect(lease.Checkpoint(background, token, []byte("next"))).To(Succeed())
			Expect(lease.Release(background, token, worklease.ExitFinished)).To(Succeed())
			Expect(read(lease, token).State).To(Equal([]byte("next")))
		})
	},
		Entry("when its ctx ended", inject.Late(2*time.Second), MatchError(context.DeadlineExceeded)),
		Entry("when its connection broke", inject.Fault(func(ctx context.Context, call inject.Call) error {
			time.AfterFunc(2*time.Second, func() { _ = call.Do(context.WithoutCancel(ctx)) })
			return errNet
		}), MatchError(errNet)),
	)

	It("succeeds after more failures than there are generations", inBubble(func() {
		faults, b := inject.Around(memory.New())
		lease, err := worklease.New(twice{b}, worklease.Config{TTL: ttl, HolderID: "a"})
		Expect(err).NotTo(HaveOccurred())
		token := acquire(lease, "w")
		faults.On(inject.Checkpoint, inject.Times(4, inject.Fail(errNet)))
		for range 4 {
			Expect(lease.Checkpoint(background, token, []byte("state"))).To(MatchError(errNet))
		}
		Expect(lease.Checkpoint(background, token, []byte("state"))).To(Succeed())
		Expect(lease.Checkpoint(background, token, []byte("state"))).To(Succeed())
	}))
})

// twice tells two generations apart.
type twice struct{ backend.Backend }

func (twice) Generations() int { return 2 }

var _ = Describe("Release", func() {
	DescribeTable("refuses a mode that nobody can declare, before the backend is reached", func(mode worklease.ExitMode) {
		var seen recorder.Recorder
		faults, b := inject.Around(memory.New())
		lease := newLease(b, "a", &seen)
		token := acquire(lease, "w")
		seen.Reset()
		Expect(lease.Release(background, token, mode)).To(MatchError(worklease.ErrInvalidExitMode))
		Expect(lease.Release(background, worklease.Token{}, mode)).To(MatchError(worklease.ErrInvalidExitMode))
		Expect(faults.Count(inject.Release)).To(BeZero())
		Expect(seen.Entries()).To(BeEmpty())
	},
		Entry("none", worklease.ExitNone),
		Entry("expired", worklease.ExitExpired),
		Entry("an unknown one", worklease.ExitMode(99)),
	)

	It("frees the lease at once, and its exit is read by the next holder", func() {
		b := memory.New()
		a, next := newLease(b, "a"), newLease(b, "b")
		Expect(a.Release(background, acquire(a, "w"), worklease.ExitAbandoned)).To(Succeed())
		Expect(read(next, acquire(next, "w"))).To(Equal(worklease.Checkpoint{
			PrevExit: worklease.ExitAbandoned, PrevHolderID: "a",
		}))
	})
})

var _ = Describe("The sentinels", func() {
	It("are those of package backend", func() {
		Expect(worklease.ErrFenced).To(BeIdenticalTo(backend.ErrFenced))
		Expect(worklease.ErrLeaseHeld).To(BeIdenticalTo(backend.ErrLeaseHeld))
		Expect(worklease.ErrLeaseExpired).To(BeIdenticalTo(backend.ErrLeaseExpired))
		Expect(worklease.ErrInvalidExitMode).To(BeIdenticalTo(backend.ErrInvalidExitMode))
	})

	It("of configurations all match ErrConfigInvalid", func() {
		Expect(worklease.ErrNilBackend).To(MatchError(worklease.ErrConfigInvalid))
		Expect(worklease.ErrRetentionRequired).To(MatchError(worklease.ErrConfigInvalid))
	})

	DescribeTable("of exits print their names", func(mode worklease.ExitMode, want string) {
		Expect(mode.String()).To(Equal(want))
	},
		Entry(nil, worklease.ExitNone, "none"),
		Entry(nil, worklease.ExitFinished, "finished"),
		Entry(nil, worklease.ExitAbandoned, "abandoned"),
		Entry(nil, worklease.ExitRetired, "retired"),
		Entry(nil, worklease.ExitExpired, "expired"),
		Entry(nil, worklease.ExitMode(7), "ExitMode(7)"),
	)
})
