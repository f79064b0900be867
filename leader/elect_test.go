package leader_test

import (
	"context"
	"fmt"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/leader"
)

var bg = context.Background()

func finish(context.Context) error { return nil }

// untilLost winds down for a while after its lease or its caller's ctx is gone.
func untilLost(ctx context.Context) error {
	<-ctx.Done()
	<-time.After(windDown)
	return errWork
}

const windDown = 10 * time.Second

var _ = Describe("Elect", func() {
	DescribeTable("declares the exit by what fn returned",
		func(result error, matches any, exit worklease.ExitMode, told ...string) {
			bubble.Run(func() {
				s := newStage()
				_, err := s.elect(bg, func(context.Context) error { return result })
				if matches == nil {
					Expect(err).NotTo(HaveOccurred())
				} else {
					Expect(err).To(MatchError(matches))
				}
				Expect(s.events()).To(Equal(told))
				Expect(s.faults.Count(inject.Checkpoint) + s.faults.Count(inject.ReadCheckpoint)).To(BeZero())
				Expect(s.left()).To(Equal(exit))
			})
		},
		Entry("nil: finished", nil, nil, worklease.ExitFinished, "elected", "relinquished"),
		Entry("ErrRetire: retired", worklease.ErrRetire, nil, worklease.ExitRetired, "elected", "relinquished"),
		Entry("a wrapped ErrRetire: retired", fmt.Errorf("done: %w", worklease.ErrRetire), nil, worklease.ExitRetired, "elected", "relinquished"),
		Entry("any other error: abandoned", errWork, errWork, worklease.ExitAbandoned, "elected"),
		Entry("an ErrLeaseHeld of fn's own: abandoned", worklease.ErrLeaseHeld, worklease.ErrLeaseHeld, worklease.ExitAbandoned, "elected"),
	)

	It("declares nothing when fn says ErrFenced", func() {
		bubble.Run(func() {
			s := newStage()
			_, err := s.elect(bg, func(context.Context) error { return fmt.Errorf("write: %w", worklease.ErrFenced) })
			Expect(err).To(MatchError(worklease.ErrFenced))
			Expect(s.events()).To(Equal([]string{"elected", "lost"}))
			Expect(s.faults.Count(inject.Release)).To(BeZero())
		})
	})

	It("declares nothing when the window ran out, and joins fn's error with the cause", func() {
		bubble.Run(func() {
			s := newStage()
			s.faults.On(inject.Renew, inject.Fail(errNet))
			_, err := s.elect(bg, untilLost)
			Expect(err).To(MatchError(worklease.ErrLeaseWindowExhausted))
			Expect(err).To(MatchError(errWork))
			Expect(err).To(MatchError(errNet))
			Expect(s.events()).To(Equal([]string{"elected", "lost"}))
			Expect(s.faults.Count(inject.Release)).To(BeZero())
			Expect(s.left()).To(Equal(worklease.ExitExpired))
		})
	})

	It("tells fn through its ctx why the lease was lost", func() {
		bubble.Run(func() {
			s := newStage()
			s.cfg.OnElected = func(_ context.Context, token worklease.Token) { s.rob(token) }
			var cause error
			_, err := s.elect(bg, func(ctx context.Context) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
			Expect(cause).To(MatchError(worklease.ErrFenced))
			Expect(err).To(MatchError(worklease.ErrFenced))
		})
	})

	It("counts a release that was fenced as lost", func() {
		bubble.Run(func() {
			s := newStage()
			s.cfg.OnElected = func(_ context.Context, token worklease.Token) { s.rob(token) }
			_, err := s.elect(bg, finish)
			Expect(err).To(MatchError(worklease.ErrFenced))
			Expect(s.events()).To(Equal([]string{"lost"}))
		})
	})

	It("joins the error of a failed release, and calls nothing back", func() {
		bubble.Run(func() {
			s := newStage()
			s.faults.On(inject.Release, inject.Fail(errNet))
			_, err := s.elect(bg, func(context.Context) error { return errWork })
			Expect(err).To(MatchError(errNet))
			Expect(err).To(MatchError(errWork))

			s = newStage()
			s.faults.On(inject.Release, inject.Fail(errNet))
			_, err = s.elect(bg, finish)
			Expect(err).To(MatchError(errNet))
			Expect(s.events()).To(Equal([]string{"elected"}))
		})
	})

	It("releases as abandoned when ctx ended, renewing until fn has returned", func() {
		bubble.Run(func() {
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			s := newStage()
			_, err := s.elect(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(3 * ttl)
				return ctx.Err()
			})
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(s.events()).To(Equal([]string{"elected"}))
			Expect(s.left()).To(Equal(worklease.ExitAbandoned))
		})
	})

	It("does not enter fn when ctx ends before, and gives the lease back as it was found", func() {
		bubble.Run(func() {
			s := newStage()
			_, err := s.elect(bg, func(context.Context) error { return worklease.ErrRetire })
			Expect(err).NotTo(HaveOccurred())
			s.told = nil

			ctx, cancel := context.WithCancel(bg)
			s.faults.On(inject.Acquire, func(ctx context.Context, call inject.Call) error {
				defer cancel()
				return call.Do(ctx)
			})
			_, err = s.elect(ctx, func(context.Context) error { panic("entered") })
			Expect(err).To(MatchError(context.Canceled))
			Expect(s.events()).To(BeEmpty())
			<-time.After(time.Second)
			s.faults.On(inject.Acquire, nil)
			Expect(s.left()).To(Equal(worklease.ExitRetired))
		})
	})

	It("bounds the release by CleanupTimeout while the backend hangs", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			defer close(released)
			s := newStage()
			s.cfg.CleanupTimeout = 3 * time.Second
			s.cfg.BackoffInterval = 0
			s.faults.On(inject.Release, inject.Hang(released))
			took, err := s.elect(bg, finish)
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(took).To(Equal(3 * time.Second))
		})
	})

	It("lets a panic of fn through, with the renewal stopped and nothing declared", func() {
		bubble.Run(func() {
			s := newStage()
			Expect(func() {
				_, _ = s.elect(bg, func(context.Context) error { panic("mine") })
			}).To(PanicWith("mine"))
			<-time.After(ttl)
			Expect(s.events()).To(Equal([]string{"elected"}))
			Expect(s.left()).To(Equal(worklease.ExitExpired))
		})
	})

	It("lets a Goexit of fn through likewise", func() {
		bubble.Run(func() {
			s := newStage()
			returned := true
			over := make(chan struct{})
			go func() {
				defer close(over)
				returned = false
				_, _ = s.elect(bg, func(context.Context) error { runtime.Goexit(); return nil })
				returned = true
			}()
			<-over
			Expect(returned).To(BeFalse())
			<-time.After(ttl)
			Expect(s.left()).To(Equal(worklease.ExitExpired))
		})
	})

	It("refuses a nil lease and a nil fn, both at once", func(ctx SpecContext) {
		Expect(leader.Elect(ctx, nil, work, leader.Config{}, nil)).To(And(
			MatchError(leader.ErrLeaseRequired), MatchError(leader.ErrFnRequired), MatchError(worklease.ErrConfigInvalid)))
		Expect(leader.Elect(ctx, nil, work, leader.Config{}, finish)).To(And(
			MatchError(leader.ErrLeaseRequired), Not(MatchError(leader.ErrFnRequired))))
		Expect(leader.Elect(ctx, newStage().lease, work, leader.Config{}, nil)).To(And(
			MatchError(leader.ErrFnRequired), Not(MatchError(leader.ErrLeaseRequired))))
	})
})

var _ = Describe("Callbacks", func() {
	It("get the ctx that Elect was given, OnElected before fn and OnRelinquished after the release", func() {
		bubble.Run(func() {
			type key struct{}
			ctx := context.WithValue(bg, key{}, "mine")
			s := newStage()
			relinquished := s.cfg.OnRelinquished
			s.cfg.OnRelinquished = func(ctx context.Context, token worklease.Token) {
				relinquished(ctx, token)
				Expect(s.left()).To(Equal(worklease.ExitFinished))
			}
			_, err := s.elect(ctx, func(context.Context) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.told = append(s.told, "fn")
				return nil
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(s.events()).To(Equal([]string{"elected", "fn", "relinquished"}))
			Expect(s.with).To(HaveEach(BeIdenticalTo(ctx)))
		})
	})

	It("do not run when the acquisition failed", func() {
		bubble.Run(func() {
			s := newStage()
			s.faults.On(inject.Acquire, inject.Fail(errNet))
			_, err := s.elect(bg, finish)
			Expect(err).To(MatchError(errNet))
			Expect(s.events()).To(BeEmpty())
		})
	})

	It("do not report as lost what was lost while the parent was ending", func() {
		bubble.Run(func() {
			s := newStage()
			ctx, cancel := context.WithCancel(bg)
			_, err := s.elect(ctx, func(context.Context) error {
				cancel()
				return worklease.ErrFenced
			})
			Expect(err).To(MatchError(worklease.ErrFenced))
			Expect(s.events()).To(Equal([]string{"elected"}))
		})
	})

	It("15a: a leader cancelled while it waits runs neither fn nor callbacks", func() {
		bubble.Run(func() {
			s := newStage()
			_, err := s.holder("them").Acquire(bg, work)
			Expect(err).NotTo(HaveOccurred())
			s.cfg.AcquireOptions = []worklease.AcquireOption{worklease.WithWaitForLease()}
			ctx, cancel := context.WithTimeout(bg, 10*time.Second)
			defer cancel()

			took, err := s.elect(ctx, func(context.Context) error { panic("entered") })
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(err).NotTo(MatchError(worklease.ErrLeaseHeld))
			Expect(took).To(Equal(10 * time.Second))
			Expect(s.events()).To(BeEmpty())
		})
	})

	DescribeTable("15b: on a loss OnLost runs once, OnRelinquished not at all, and Elect returns after fn",
		func(silent bool) {
			bubble.Run(func() {
				s := newStage()
				s.cfg.BackoffInterval = 0
				if silent {
					s.cfg.OnElected, s.cfg.OnLost, s.cfg.OnRelinquished = nil, nil, nil
				}
				s.faults.On(inject.Renew, inject.Fail(errNet))
				returned := false
				took, err := s.elect(bg, func(ctx context.Context) error {
					defer func() { returned = true }()
					return untilLost(ctx)
				})
				Expect(err).To(MatchError(worklease.ErrLeaseWindowExhausted))
				Expect(returned).To(BeTrue())
				Expect(took).To(Equal(ttl + windDown))
				if !silent {
					Expect(s.events()).To(Equal([]string{"elected", "lost"}))
				}
			})
		},
		Entry("15b: with callbacks", false),
		Entry("15b: without any", true),
	)

	DescribeTable("15b: at a clean end OnRelinquished runs once, after fn and the release",
		func(silent bool) {
			bubble.Run(func() {
				s := newStage()
				if silent {
					s.cfg.OnElected, s.cfg.OnLost, s.cfg.OnRelinquished = nil, nil, nil
				}
				_, err := s.elect(bg, func(context.Context) error {
					Expect(s.events()).NotTo(ContainElement("relinquished"))
					Expect(s.faults.Count(inject.Release)).To(BeZero())
					return nil
				})
				Expect(err).NotTo(HaveOccurred())
				if !silent {
					Expect(s.events()).To(Equal([]string{"elected", "relinquished"}))
				}
				Expect(s.left()).To(Equal(worklease.ExitFinished))
			})
		},
		Entry("15b: with callbacks", false),
		Entry("15b: without any", true),
	)
})

var _ = Describe("Pacing", func() {
	It("makes a follower's loop on a held lease try about once a second", func() {
		bubble.Run(func() {
			s := newStage()
			s.cfg = leader.Config{}
			them := s.holder("them")
			token, err := them.Acquire(bg, work)
			Expect(err).NotTo(HaveOccurred())
			heldCtx, release := context.WithCancel(bg)
			defer release()
			_, stop := them.StartRenewal(heldCtx, token)
			defer stop()
			before := s.faults.Count(inject.Acquire)

			ctx, cancel := context.WithTimeout(bg, 2*time.Minute)
			defer cancel()
			for ctx.Err() == nil {
				took, err := s.elect(ctx, finish)
				Expect(err).To(MatchError(worklease.ErrLeaseHeld))
				if ctx.Err() == nil {
					Expect(took).To(And(BeNumerically(">=", time.Second), BeNumerically("<=", 1200*time.Millisecond)))
				}
			}
			Expect(s.faults.Count(inject.Acquire) - before).To(And(BeNumerically(">=", 100), BeNumerically("<=", 120)))
		})
	})

	It("has a follower lead at the moment when the leader has left", func() {
		bubble.Run(func() {
			s := newStage()
			them := s.holder("them")
			token, err := them.Acquire(bg, work)
			Expect(err).NotTo(HaveOccurred())
			time.AfterFunc(time.Second, func() {
				defer GinkgoRecover()
				Expect(them.Release(bg, token, worklease.ExitFinished)).To(Succeed())
			})
			s.cfg.BackoffInterval = 0
			took, err := s.elect(bg, finish)
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(Equal(time.Second))
		})
	})

	It("has a follower lead within 100 ms of a crashed leader's lapse, if it still idles then", func() {
		bubble.Run(func() {
			s := newStage()
			Expect(s.holder("them").Acquire(bg, work)).Error().NotTo(HaveOccurred())
			s.cfg.IdleInterval, s.cfg.BackoffInterval = time.Hour, 0
			took, err := s.elect(bg, finish)
			Expect(err).NotTo(HaveOccurred())
			Expect(took).To(And(BeNumerically(">=", ttl), BeNumerically("<=", ttl+100*time.Millisecond)))
		})
	})

	It("has a follower whose Lease is a wrapper miss nothing but the hint", func() {
		bubble.Run(func() {
			s := newStage()
			them := s.holder("them")
			token, err := them.Acquire(bg, work)
			Expect(err).NotTo(HaveOccurred())
			time.AfterFunc(time.Second, func() {
				defer GinkgoRecover()
				Expect(them.Release(bg, token, worklease.ExitFinished)).To(Succeed())
			})
			s.lease = struct{ worklease.Lease }{s.lease}
			s.cfg.BackoffInterval = 0
			took, err := s.elect(bg, finish)
			Expect(err).To(MatchError(worklease.ErrLeaseHeld))
			Expect(took).To(And(BeNumerically(">=", idle), BeNumerically("<=", idle+idle/5)))
			_, err = s.elect(bg, finish)
			Expect(err).NotTo(HaveOccurred())
		})
	})

	It("returns after IdleInterval and not before, however often it was told in vain", func() {
		bubble.Run(func() {
			s := newStage()
			token, err := s.holder("them").Acquire(bg, work)
			Expect(err).NotTo(HaveOccurred())
			before := s.faults.Count(inject.Acquire)
			time.AfterFunc(time.Second, func() {
				defer GinkgoRecover()
				// Freed, and taken by somebody else before we can ask.
				Expect(s.holder("them").Forget(bg, token)).To(Succeed())
				Expect(s.holder("others").Acquire(bg, work)).Error().NotTo(HaveOccurred())
			})
			took, err := s.elect(bg, finish)
			Expect(err).To(MatchError(worklease.ErrLeaseHeld))
			Expect(took).To(And(BeNumerically(">=", idle), BeNumerically("<=", idle+idle/5)))
			Expect(s.faults.Count(inject.Acquire) - before).To(Equal(3))
		})
	})

	It("spreads followers by up to a fifth of IdleInterval", func() {
		bubble.Run(func() {
			s := newStage()
			_, err := s.holder("them").Acquire(bg, work)
			Expect(err).NotTo(HaveOccurred())
			seen := map[time.Duration]bool{}
			for range 5 {
				took, err := s.elect(bg, finish)
				Expect(err).To(MatchError(worklease.ErrLeaseHeld))
				Expect(took).To(And(BeNumerically(">=", idle), BeNumerically("<=", idle+idle/5)))
				seen[took] = true
			}
			Expect(len(seen)).To(BeNumerically(">", 1))
		})
	})

	DescribeTable("waits BackoffInterval after every return that is neither fenced nor held",
		func(prepare func(*stage), fn func(context.Context) error, term time.Duration) {
			bubble.Run(func() {
				s := newStage()
				prepare(s)
				took, _ := s.elect(bg, fn)
				Expect(took).To(Equal(term + backoff))
			})
			bubble.Run(func() {
				s := newStage()
				s.cfg.BackoffInterval = 0
				prepare(s)
				took, _ := s.elect(bg, fn)
				Expect(took).To(Equal(term), "zero means no wait at all")
			})
		},
		Entry("a clean finish", func(*stage) {}, finish, time.Duration(0)),
		Entry("a retirement", func(*stage) {}, func(context.Context) error { return worklease.ErrRetire }, time.Duration(0)),
		Entry("an error of fn", func(*stage) {}, func(context.Context) error { return errWork }, time.Duration(0)),
		Entry("an error of fn that matches ErrLeaseHeld", func(*stage) {},
			func(context.Context) error { return worklease.ErrLeaseHeld }, time.Duration(0)),
		Entry("an acquisition that failed", func(s *stage) { s.faults.On(inject.Acquire, inject.Fail(errNet)) }, finish, time.Duration(0)),
		Entry("a release that failed", func(s *stage) { s.faults.On(inject.Release, inject.Fail(errNet)) }, finish, time.Duration(0)),
		Entry("a window that ran out", func(s *stage) { s.faults.On(inject.Renew, inject.Fail(errNet)) }, untilLost, ttl+windDown),
	)

	DescribeTable("does not wait after a term that ended fenced",
		func(prepare func(*stage), fn func(context.Context) error) {
			bubble.Run(func() {
				s := newStage()
				prepare(s)
				took, err := s.elect(bg, fn)
				Expect(err).To(MatchError(worklease.ErrFenced))
				Expect(took).To(BeZero())
			})
		},
		Entry("by fn", func(*stage) {}, func(context.Context) error { return worklease.ErrFenced }),
		Entry("by the release", func(s *stage) {
			s.cfg.OnElected = func(_ context.Context, token worklease.Token) { s.rob(token) }
		}, finish),
	)

	It("calls back before it waits", func() {
		bubble.Run(func() {
			s := newStage()
			var at time.Time
			s.cfg.OnRelinquished = func(context.Context, worklease.Token) { at = time.Now() }
			start := time.Now()
			_, err := s.elect(bg, finish)
			Expect(err).NotTo(HaveOccurred())
			Expect(at).To(Equal(start))
		})
	})

	DescribeTable("returns at once the error it had when ctx ends while it waits",
		func(prepare func(*stage), fn func(context.Context) error, matches error) {
			bubble.Run(func() {
				s := newStage()
				prepare(s)
				ctx, cancel := context.WithTimeout(bg, time.Second)
				defer cancel()
				took, err := s.elect(ctx, fn)
				Expect(took).To(Equal(time.Second))
				if matches == nil {
					Expect(err).NotTo(HaveOccurred())
					return
				}
				Expect(err).To(MatchError(matches))
				Expect(err).NotTo(MatchError(context.DeadlineExceeded))
			})
		},
		Entry("none", func(*stage) {}, finish, nil),
		Entry("fn's", func(*stage) {}, func(context.Context) error { return errWork }, errWork),
		Entry("ErrLeaseHeld", func(s *stage) {
			Expect(s.holder("them").Acquire(bg, work)).Error().NotTo(HaveOccurred())
		}, finish, worklease.ErrLeaseHeld),
		Entry("the acquisition's", func(s *stage) { s.faults.On(inject.Acquire, inject.Fail(errNet)) }, finish, errNet),
	)

	It("returns a context error of the acquisition at once", func() {
		bubble.Run(func() {
			s := newStage()
			ctx, cancel := context.WithCancel(bg)
			cancel()
			took, err := s.elect(ctx, finish)
			Expect(err).To(MatchError(context.Canceled))
			Expect(err).NotTo(MatchError(worklease.ErrLeaseHeld))
			Expect(took).To(BeZero())
		})
	})
})
