package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/worker"
)

var _ = Describe("NewRunner", func() {
	It("asks for a Lease", func() {
		_, err := worker.NewRunner(worker.RunnerConfig{WorkFn: never})
		Expect(err).To(MatchError(worker.ErrLeaseRequired))
		Expect(err).To(MatchError(worklease.ErrConfigInvalid))
		Expect(err).NotTo(MatchError(worker.ErrWorkFnRequired))
	})

	It("asks for a WorkFn", func() {
		_, err := worker.NewRunner(worker.RunnerConfig{Lease: newLease(memory.New(), runs)})
		Expect(err).To(MatchError(worker.ErrWorkFnRequired))
		Expect(err).To(MatchError(worklease.ErrConfigInvalid))
		Expect(err).NotTo(MatchError(worker.ErrLeaseRequired))
	})

	It("names all that is missing at once", func() {
		_, err := worker.NewRunner(worker.RunnerConfig{})
		Expect(err).To(MatchError(worker.ErrLeaseRequired))
		Expect(err).To(MatchError(worker.ErrWorkFnRequired))
	})

	It("copies the options, so that two runners may be made from one slice", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			acquire := []worklease.AcquireOption{worklease.WithPollInterval(time.Second)}
			renewal := []worklease.RenewalOption{worklease.WithRenewalInterval(ttl / 2)}
			r := newRunner(worker.RunnerConfig{
				Lease: newLease(b, runs), AcquireOptions: acquire, RenewalOptions: renewal,
				WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					bubble.Sleep(ttl - 1)
					return nil, nil
				},
			})
			acquire[0], renewal[0] = worklease.WithWaitForLease(), worklease.WithRenewalInterval(ttl/10)

			Expect(r.Run(context.Background(), work)).To(Succeed())
			Expect(faults.Count(inject.Renew)).To(Equal(1))
			_, err := b.Acquire(context.Background(), work, before, ttl)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Run(context.Background(), work)).To(MatchError(worklease.ErrLeaseHeld))
		})
	})
})

// ending is a row of the table of how a run ends. What is not told is that z left
// "old" as abandoned, and that the function returns "new".
type ending struct {
	// do runs inside the function and returns its error. cancel ends the caller's
	// context.
	do func(ctx context.Context, s scene) error

	// state is what the function returns, "new" when nil.
	state func() []byte

	matches []error // what Run returns matches, none for success
	misses  []error // what it does not match
	next    worklease.Checkpoint
}

// scene is what a row can pull at.
type scene struct {
	backend backend.Backend
	faults  *inject.Faults
	token   worklease.Token
	cancel  context.CancelFunc
}

func failing(err error) func(context.Context, scene) error {
	return func(context.Context, scene) error { return err }
}

// cancelled ends the caller's context, winds down and returns err.
func cancelled(err error) func(context.Context, scene) error {
	return func(ctx context.Context, s scene) error {
		s.cancel()
		<-ctx.Done()
		return err
	}
}

// fenced loses the lease to somebody who forgot it, and returns err.
func fenced(err error) func(context.Context, scene) error {
	return func(ctx context.Context, s scene) error {
		fence(s.backend, s.token)
		<-ctx.Done()
		return err
	}
}

// exhausted cannot renew any more, and returns err.
func exhausted(err error) func(context.Context, scene) error {
	return func(ctx context.Context, s scene) error {
		s.faults.On(inject.Renew, inject.Fail(io.ErrUnexpectedEOF))
		<-ctx.Done()
		return err
	}
}

// lapsed lets the store call the lease lapsed, and returns err.
func lapsed(err error) func(context.Context, scene) error {
	return func(ctx context.Context, s scene) error {
		Expect(s.backend.Renew(context.Background(), record(s.token), -ttl)).To(Succeed())
		<-ctx.Done()
		return err
	}
}

var _ = Describe("A run", func() {
	DescribeTable("ends as what the function returned and what became of the lease say", func(row ending) {
		bubble.Run(func() {
			b := memory.New()
			leave(b, worklease.ExitAbandoned)
			faults, faulty := inject.Around(b)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()

			err := run(ctx, faulty, func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				err := row.do(ctx, scene{b, faults, token, cancel})
				if row.state != nil {
					return row.state(), err
				}
				return []byte("new"), err
			})

			if len(row.matches) == 0 {
				Expect(err).NotTo(HaveOccurred())
			}
			for _, want := range row.matches {
				Expect(err).To(MatchError(want))
			}
			for _, not := range row.misses {
				Expect(err).NotTo(MatchError(not))
			}
			Expect(next(b)).To(Equal(row.next))
		})
	},
		Entry("ErrFenced from the function: nothing is recorded", ending{
			do:      failing(fmt.Errorf("my table said: %w", worklease.ErrFenced)),
			matches: []error{worklease.ErrFenced},
			next:    left("old", worklease.ExitExpired, runs),
		}),
		Entry("ErrFenced from the function beats ErrRetire", ending{
			do:      failing(errors.Join(worklease.ErrRetire, worklease.ErrFenced)),
			matches: []error{worklease.ErrFenced},
			next:    left("old", worklease.ExitExpired, runs),
		}),
		Entry("a fenced lease, whatever the function returns: nothing is recorded", ending{
			do:      fenced(nil),
			matches: []error{worklease.ErrFenced},
			next:    left("", worklease.ExitNone, ""),
		}),
		Entry("a fenced lease beats the function's error", ending{
			do:      fenced(errWork),
			matches: []error{worklease.ErrFenced},
			misses:  []error{errWork},
			next:    left("", worklease.ExitNone, ""),
		}),
		Entry("a window that ran out: nothing is recorded", ending{
			do:      exhausted(nil),
			matches: []error{worklease.ErrLeaseWindowExhausted, io.ErrUnexpectedEOF},
			misses:  []error{worklease.ErrFenced},
			next:    left("old", worklease.ExitExpired, runs),
		}),
		Entry("a window that ran out is joined to the function's error", ending{
			do:      exhausted(errWork),
			matches: []error{worklease.ErrLeaseWindowExhausted, errWork},
			next:    left("old", worklease.ExitExpired, runs),
		}),
		Entry("a window that ran out beats ErrRetire", ending{
			do:      exhausted(worklease.ErrRetire),
			matches: []error{worklease.ErrLeaseWindowExhausted},
			next:    left("old", worklease.ExitExpired, runs),
		}),
		Entry("a lease that the store calls lapsed: nothing is recorded", ending{
			do:      lapsed(errWork),
			matches: []error{worklease.ErrLeaseWindowExhausted, worklease.ErrLeaseExpired, errWork},
			next:    left("old", worklease.ExitExpired, runs),
		}),
		Entry("ErrRetire: state, retired, success", ending{
			do:   failing(fmt.Errorf("no customer left: %w", worklease.ErrRetire)),
			next: left("new", worklease.ExitRetired, runs),
		}),
		Entry("nil: state, finished, success", ending{
			do:   failing(nil),
			next: left("new", worklease.ExitFinished, runs),
		}),
		Entry("any other error: state, abandoned, that error", ending{
			do:      failing(errWork),
			matches: []error{errWork},
			next:    left("new", worklease.ExitAbandoned, runs),
		}),
		Entry("a caller that is done: state, abandoned, its error", ending{
			do:      cancelled(context.Canceled),
			matches: []error{context.Canceled},
			next:    left("new", worklease.ExitAbandoned, runs),
		}),
		Entry("a caller that is done, and work that is finished all the same", ending{
			do:   cancelled(nil),
			next: left("new", worklease.ExitFinished, runs),
		}),
		Entry("a caller that is done, and work that is retired all the same", ending{
			do:   cancelled(worklease.ErrRetire),
			next: left("new", worklease.ExitRetired, runs),
		}),
		Entry("a nil state leaves the stored one alone", ending{
			do:    failing(nil),
			state: func() []byte { return nil },
			next:  left("old", worklease.ExitFinished, runs),
		}),
		Entry("an empty state erases the stored one", ending{
			do:    failing(nil),
			state: func() []byte { return []byte{} },
			next:  left("", worklease.ExitFinished, runs),
		}),
		Entry("a nil state beside an error leaves the stored one alone", ending{
			do:      failing(errWork),
			state:   func() []byte { return nil },
			matches: []error{errWork},
			next:    left("old", worklease.ExitAbandoned, runs),
		}),
	)

	It("returns ErrFenced itself, and the function's error itself", func(ctx SpecContext) {
		Expect(run(ctx, memory.New(), returns(nil, fmt.Errorf("zombie: %w", worklease.ErrFenced)))).
			To(BeIdenticalTo(worklease.ErrFenced))
		Expect(run(ctx, memory.New(), returns(nil, errWork))).To(BeIdenticalTo(errWork))
	}, SpecTimeout(bound))

	It("hands the function its token and what the holder before left", func(ctx SpecContext) {
		b := memory.New()
		leave(b, worklease.ExitRetired)
		Expect(run(ctx, b, func(_ context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
			Expect(token.WorkID()).To(Equal(work))
			Expect(token.HolderID()).To(Equal(runs))
			Expect(prior).To(Equal(left("old", worklease.ExitRetired, before)))
			return nil, nil
		})).To(Succeed())
	}, SpecTimeout(bound))

	It("keeps the lease for as long as the function takes", func() {
		bubble.Run(func() {
			b := memory.New()
			Expect(run(context.Background(), b, func(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				for range 50 {
					bubble.Sleep(ttl / 10)
					_, err := b.Acquire(context.Background(), work, after, ttl)
					Expect(err).To(MatchError(worklease.ErrLeaseHeld))
				}
				return nil, context.Cause(ctx)
			})).To(Succeed())
		})
	})

	It("renews as its options say", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			r := newRunner(worker.RunnerConfig{
				Lease:          newLease(b, runs),
				RenewalOptions: []worklease.RenewalOption{worklease.WithRenewalInterval(time.Second)},
				WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					bubble.Sleep(5*time.Second + time.Millisecond)
					return nil, nil
				},
			})
			Expect(r.Run(context.Background(), work)).To(Succeed())
			Expect(faults.Count(inject.Renew)).To(Equal(5))
		})
	})

	It("waits for the lease where its options say so", func() {
		bubble.Run(func() {
			b := memory.New()
			_, err := b.Acquire(context.Background(), work, before, ttl)
			Expect(err).NotTo(HaveOccurred())
			start := time.Now()
			r := newRunner(worker.RunnerConfig{
				Lease:          newLease(b, runs),
				AcquireOptions: []worklease.AcquireOption{worklease.WithWaitForLease(), worklease.WithPollInterval(time.Second)},
				WorkFn:         returns(nil, nil),
			})
			Expect(r.Run(context.Background(), work)).To(Succeed())
			Expect(time.Since(start)).To(And(BeNumerically(">=", ttl), BeNumerically("<=", ttl+time.Second)))
		})
	})

	It("does not enter the function while somebody else holds the lease", func(ctx SpecContext) {
		b := memory.New()
		_, err := b.Acquire(ctx, work, before, ttl)
		Expect(err).NotTo(HaveOccurred())
		err = run(ctx, b, never)
		Expect(err).To(MatchError(worklease.ErrLeaseHeld))
		Expect(err).To(MatchError(HavePrefix("worker: acquire: worklease: Acquire: ")))
		var held *worklease.HeldError
		Expect(errors.As(err, &held)).To(BeTrue())
		Expect(held.HolderID).To(Equal(before))
	}, SpecTimeout(bound))

	It("runs different work at once through one Runner", func(ctx SpecContext) {
		both := make(chan struct{})
		entered := make(chan string, 2)
		r := newRunner(worker.RunnerConfig{
			Lease: newLease(memory.New(), runs),
			WorkFn: func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				entered <- token.WorkID()
				select {
				case <-both:
					return nil, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			},
		})
		results := make(chan error, 2)
		for _, id := range []string{"one", "two"} {
			go func() { results <- r.Run(ctx, id) }()
		}
		Expect([]string{<-entered, <-entered}).To(ConsistOf("one", "two"))
		close(both)
		Expect(<-results).To(Succeed())
		Expect(<-results).To(Succeed())
	}, SpecTimeout(bound))
})

var _ = Describe("A function that does not return", func() {
	It("lets a panic go on up, with the renewal stopped and nothing recorded", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			leave(b, worklease.ExitFinished)
			Expect(func() {
				_ = run(context.Background(), b, func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					panic(errWork)
				})
			}).To(PanicWith(errWork))
			Expect(next(b)).To(Equal(left("old", worklease.ExitExpired, runs)))
			Expect(faults.Count(inject.Renew)).To(BeZero())
		})
	})

	It("lets runtime.Goexit go on up, with the renewal stopped and nothing recorded", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			leave(b, worklease.ExitFinished)
			returned, ended := false, make(chan struct{})
			go func() {
				defer close(ended)
				_ = run(context.Background(), b, func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					runtime.Goexit()
					return nil, nil
				})
				returned = true
			}()
			<-ended
			Expect(returned).To(BeFalse())
			Expect(next(b)).To(Equal(left("old", worklease.ExitExpired, runs)))
			Expect(faults.Count(inject.Renew)).To(BeZero())
		})
	})
})

var _ = Describe("A run inside a run", func() {
	It("keeps its lease when the outer one is fenced, and declares its own exit", func() {
		bubble.Run(func() {
			b := memory.New()
			outer := newLease(b, "outer")
			inner := newRunner(worker.RunnerConfig{
				Lease: newLease(b, runs),
				WorkFn: func(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
					<-ctx.Done()
					Expect(context.Cause(ctx)).To(MatchError(worklease.ErrFenced))
					bubble.Sleep(3 * ttl) // renewed, although the context's cause is a loss
					return []byte("half"), ctx.Err()
				},
			})
			var innerErr error
			r := newRunner(worker.RunnerConfig{
				Lease: outer,
				WorkFn: func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
					fence(b, token)
					innerErr = inner.Run(ctx, work)
					return nil, innerErr
				},
			})
			Expect(r.Run(context.Background(), "outer work")).To(MatchError(worklease.ErrFenced))
			Expect(innerErr).To(MatchError(context.Canceled))
			Expect(innerErr).NotTo(MatchError(worklease.ErrFenced))
			Expect(next(b)).To(Equal(left("half", worklease.ExitAbandoned, runs)))
		})
	})
})
