package claim_test

import (
	"context"
	"errors"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/claim"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
)

const ttl = 10 * time.Second

var errNet = errors.New("connection reset")

// unrestoring hides what memory can do beyond backend.Backend.
type unrestoring struct{ backend.Backend }

// settled waits until nothing but time could change anything.
func settled() { synctest.Wait() }

// inBubbles makes a spec's body of one that runs in a hundred bubbles, since what
// it looks for depends on the order in which Go runs goroutines.
func inBubbles(body func()) func() {
	return func() {
		for range 100 {
			bubble.Run(body)
		}
	}
}

// within returns a context that ends after d. Its timer ends with it.
func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// failure returns the error of an attempt.
func failure(_ claim.Answer, err error) error { return err }

// leave makes the row of "w" look as if its last holder, "before", had left it in
// mode, and returns its token.
func leave(b backend.Backend, mode backend.ExitMode) uint64 {
	if mode == backend.ExitNone {
		return 0
	}
	ctx := context.Background()
	lifetime := ttl
	if mode == backend.ExitExpired {
		lifetime = -ttl
	}
	rec, err := b.Acquire(ctx, "w", "before", ttl)
	Expect(err).NotTo(HaveOccurred())
	Expect(b.Checkpoint(ctx, rec, []byte("state"), lifetime)).To(Succeed())
	if mode != backend.ExitExpired {
		Expect(b.Release(ctx, rec, mode)).To(Succeed())
	}
	return rec.FencingToken
}

// next takes the lease on "w" and returns its record and what it finds there.
func next(b backend.Backend) (backend.LeaseRecord, backend.Checkpoint) {
	ctx := context.Background()
	rec, err := b.Acquire(ctx, "w", "next", ttl)
	Expect(err).NotTo(HaveOccurred())
	cp, err := b.ReadCheckpoint(ctx, rec)
	Expect(err).NotTo(HaveOccurred())
	return rec, cp
}

var _ = Describe("Claim", func() {
	It("returns the record, its window and the time of the call", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Late(time.Second))
			start := time.Now()
			answer, err := claim.New(b, "a", ttl).Claim(context.Background(), "w")
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Record.HolderID).To(Equal("a"))
			Expect(answer.Window.Deadline()).To(Equal(start.Add(ttl)))
			Expect(answer.Start).To(Equal(start))
			Expect(answer.Took).To(Equal(time.Second))
		})
	})

	It("calls nothing when ctx is done", func() {
		faults, b := inject.Around(memory.New())
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		Expect(failure(claim.New(b, "a", ttl).Claim(ctx, "w"))).To(MatchError(context.Canceled))
		Expect(faults.Count(inject.Acquire)).To(BeZero())
	})

	It("passes the backend's error on", func() {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Fail(errNet))
		_, err := claim.New(b, "a", ttl).Claim(context.Background(), "w")
		Expect(err).To(MatchError(errNet))
	})

	It("gives its caller's values to the call, and not its end", func() {
		bubble.Run(func() {
			type key struct{}
			var seen context.Context
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, func(ctx context.Context, call inject.Call) error {
				seen = ctx
				return inject.Late(2*time.Second)(ctx, call)
			})
			ctx := context.WithValue(within(time.Second), key{}, "value")
			_, err := claim.New(b, "a", ttl).Claim(ctx, "w")
			Expect(err).To(MatchError(context.DeadlineExceeded))
			settled()
			Expect(seen.Value(key{})).To(Equal("value"))
			Expect(seen.Err()).NotTo(HaveOccurred())
		})
	})

	DescribeTable("names no sentinel and no context's error when no answer comes within the TTL", func(fault inject.Fault) {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, fault)
			start := time.Now()
			_, err := claim.New(b, "a", ttl).Claim(context.Background(), "w")
			Expect(time.Since(start)).To(Equal(ttl))
			Expect(err).To(MatchError(ContainSubstring("no answer within the TTL of 10s")))
			Expect(err).NotTo(Or(
				MatchError(backend.ErrLeaseHeld), MatchError(backend.ErrLeaseExpired), MatchError(backend.ErrFenced),
				MatchError(context.DeadlineExceeded), MatchError(context.Canceled),
			))
		})
	},
		Entry("from a call that ignores its context", inject.Late(2*ttl)),
		Entry("from a call that obeys it", inject.UntilDone),
	)
})

var _ = Describe("An abandoned attempt", func() {
	modes := []backend.ExitMode{
		backend.ExitNone, backend.ExitFinished, backend.ExitAbandoned, backend.ExitRetired, backend.ExitExpired,
	}
	for _, mode := range modes {
		for name, hide := range map[string]func(backend.Backend) backend.Backend{
			"a Restorer":           func(b backend.Backend) backend.Backend { return b },
			"a backend without it": func(b backend.Backend) backend.Backend { return unrestoring{b} },
		} {
			It("leaves "+mode.String()+" as it was found, on "+name, func() {
				bubble.Run(func() {
					inner := memory.New()
					before := leave(inner, mode)
					faults, b := inject.Around(hide(inner))
					faults.On(inject.Acquire, inject.Slow(2*time.Second))

					_, err := claim.New(b, "a", ttl).Claim(within(time.Second), "w")
					Expect(err).To(MatchError(context.DeadlineExceeded))
					bubble.Sleep(time.Second)
					settled()
					if _, restores := b.(backend.Restorer); !restores && mode == backend.ExitExpired {
						bubble.Sleep(ttl) // what cannot be declared lapses by itself
					}

					rec, found := next(inner)
					Expect(found.PrevExit).To(Equal(mode))
					Expect(rec.FencingToken).To(BeNumerically(">", before+1))
					if mode != backend.ExitNone {
						Expect(found.State).To(Equal([]byte("state")))
					}
					if _, restores := b.(backend.Restorer); restores && mode != backend.ExitNone {
						Expect(found.PrevHolderID).To(Equal("before"))
					}
				})
			})
		}
	}

	It("is given back after its window too", func() {
		bubble.Run(func() {
			inner := memory.New()
			leave(inner, backend.ExitRetired)
			faults, b := inject.Around(inner)
			faults.On(inject.Acquire, inject.Slow(2*ttl))
			_, err := claim.New(b, "a", ttl).Claim(context.Background(), "w")
			Expect(err).To(HaveOccurred())
			bubble.Sleep(2 * ttl)

			_, found := next(inner)
			Expect(found.PrevExit).To(Equal(backend.ExitRetired))
			Expect(found.PrevHolderID).To(Equal("before"))
		})
	})

	It("is given back, and named nothing else, when the answer comes as its window closes", inBubbles(func() {
		inner := memory.New()
		leave(inner, backend.ExitRetired)
		faults, b := inject.Around(inner)
		faults.On(inject.Acquire, inject.Sequence(inject.Slow(ttl), inject.UntilDone))
		c := claim.New(b, "a", ttl)
		for range 2 {
			err := failure(c.Claim(context.Background(), "w"))
			Expect(err).To(MatchError(ContainSubstring("no answer within the TTL")))
			Expect(err).NotTo(MatchError(context.DeadlineExceeded))
		}
		settled()
		_, found := next(inner)
		Expect(found.PrevExit).To(Equal(backend.ExitRetired))
	}))

	It("is given back in spite of errors, until it would have lapsed", func() {
		bubble.Run(func() {
			inner := memory.New()
			faults, b := inject.Around(inner)
			faults.On(inject.Acquire, inject.Slow(2*time.Second))
			faults.On(inject.Restore, inject.Times(3, inject.Fail(errNet)))
			_, err := claim.New(b, "a", ttl).Claim(within(time.Second), "w")
			Expect(err).To(MatchError(context.DeadlineExceeded))
			bubble.Sleep(3 * time.Second)
			Expect(faults.Count(inject.Restore)).To(Equal(4))
			_, found := next(inner)
			Expect(found.PrevExit).To(Equal(backend.ExitNone))

			faults.On(inject.Restore, inject.Fail(errNet))
			bubble.Sleep(ttl)
			_, err = claim.New(b, "a", ttl).Claim(within(time.Second), "w")
			Expect(err).To(MatchError(context.DeadlineExceeded))
			bubble.Sleep(ttl + time.Second)
			tries := faults.Count(inject.Restore)
			bubble.Sleep(time.Hour / 2)
			Expect(faults.Count(inject.Restore)).To(Equal(tries))
		})
	})

	It("is not given back from under a successor", func() {
		bubble.Run(func() {
			inner := memory.New()
			faults, b := inject.Around(inner)
			faults.On(inject.Acquire, inject.Slow(2*ttl))
			_, err := claim.New(b, "a", ttl).Claim(within(time.Second), "w")
			Expect(err).To(MatchError(context.DeadlineExceeded))
			bubble.Sleep(ttl)
			rec, _ := next(inner)
			bubble.Sleep(ttl - time.Second)
			Expect(inner.Renew(context.Background(), rec, ttl)).To(Succeed())
			bubble.Sleep(ttl / 2)
			Expect(faults.Count(inject.Restore)).To(Equal(1))
			Expect(inner.Renew(context.Background(), rec, ttl)).To(Succeed())
		})
	})

	It("keeps the next attempt at its work ID waiting until it is settled, and no other", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Times(1, inject.Slow(3*time.Second)))
			c := claim.New(b, "a", ttl)
			_, err := c.Claim(within(time.Second), "w")
			Expect(err).To(MatchError(context.DeadlineExceeded))

			start := time.Now()
			Expect(c.Claim(context.Background(), "another")).To(HaveField("Took", time.Duration(0)))
			Expect(time.Since(start)).To(BeZero())

			answer, err := c.Claim(context.Background(), "w")
			Expect(err).NotTo(HaveOccurred())
			Expect(time.Since(start)).To(Equal(2 * time.Second))
			Expect(answer.Took).To(BeZero(), "the wait for a turn is no part of the call")
		})
	})

	It("keeps the next attempt waiting no longer than that one's context", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Slow(5*time.Second))
			c := claim.New(b, "a", ttl)
			Expect(failure(c.Claim(within(time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
			start := time.Now()
			Expect(failure(c.Claim(within(time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
			Expect(time.Since(start)).To(Equal(time.Second))
			Expect(faults.Count(inject.Acquire)).To(Equal(1))
		})
	})

	It("keeps the next attempt waiting no longer than the TTL", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Times(1, inject.Late(time.Minute)))
			c := claim.New(b, "a", ttl)
			start := time.Now()
			Expect(failure(c.Claim(within(time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
			Expect(failure(c.Claim(context.Background(), "w"))).NotTo(HaveOccurred())
			Expect(time.Since(start)).To(Equal(ttl))
		})
	})

	It("does not let a third attempt out when it comes back beside a second", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Sequence(inject.Late(15*time.Second), inject.Late(9*time.Second)))
			c := claim.New(b, "a", ttl)
			Expect(failure(c.Claim(within(time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
			Expect(failure(c.Claim(within(10*time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
			bubble.Sleep(5 * time.Second) // the first has come back, the second not
			Expect(faults.Out(inject.Acquire)).To(Equal(1))
			Expect(failure(c.Claim(within(time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
			Expect(faults.Count(inject.Acquire)).To(Equal(2))
		})
	})

	It("lets one attempt a work ID out at a time, however many want one", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Slow(100*time.Millisecond))
			c := claim.New(b, "a", ttl)
			for range 20 {
				go func() { _, _ = c.Claim(context.Background(), "w") }()
			}
			for n := range 20 {
				settled()
				Expect(faults.Out(inject.Acquire)).To(Equal(1))
				Expect(faults.Count(inject.Acquire)).To(Equal(n + 1))
				bubble.Sleep(100 * time.Millisecond)
			}
		})
	})
})

var _ = Describe("Undo", func() {
	It("gives a lease back beside its caller, and the next attempt waits for it", inBubbles(func() {
		faults, b := inject.Around(memory.New())
		c := claim.New(b, "a", ttl)
		answer, err := c.Claim(context.Background(), "w")
		Expect(err).NotTo(HaveOccurred())

		faults.On(inject.Restore, inject.Late(time.Second))
		start := time.Now()
		c.Undo(within(time.Millisecond), answer.Record)
		Expect(time.Since(start)).To(BeZero())
		Expect(failure(c.Claim(context.Background(), "w"))).NotTo(HaveOccurred())
		Expect(time.Since(start)).To(Equal(time.Second))
	}))
})

var _ = Describe("GiveBack", func() {
	It("makes one attempt", func() {
		faults, b := inject.Around(memory.New())
		c := claim.New(b, "a", ttl)
		answer, err := c.Claim(context.Background(), "w")
		Expect(err).NotTo(HaveOccurred())
		faults.On(inject.Restore, inject.Fail(errNet))
		Expect(c.GiveBack(context.Background(), answer.Record)).To(MatchError(errNet))
		Expect(faults.Count(inject.Restore)).To(Equal(1))
	})

	It("passes the error of a read on, without a Restorer", func() {
		faults, b := inject.Around(unrestoring{memory.New()})
		c := claim.New(b, "a", ttl)
		answer, err := c.Claim(context.Background(), "w")
		Expect(err).NotTo(HaveOccurred())
		faults.On(inject.ReadCheckpoint, inject.Fail(errNet))
		Expect(c.GiveBack(context.Background(), answer.Record)).To(MatchError(errNet))
		Expect(faults.Count(inject.Forget)).To(BeZero())
	})
})
