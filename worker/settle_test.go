package worker_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"
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

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// classifying is a backend that expects one error of its own to pass.
type classifying struct {
	*memory.Backend
	passes error
}

func (c classifying) Transient(err error) bool { return errors.Is(err, c.passes) }

var _ = Describe("The final writes", func() {
	DescribeTable("outlast one connection reset", func(name inject.Op, fault func(error) inject.Fault, err error) {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(classifying{b, errStore})
			faults.On(name, inject.Times(1, fault(err)))
			Expect(run(context.Background(), faulty, returns([]byte("new"), nil))).To(Succeed())
			Expect(faults.Count(name)).To(Equal(2))
			Expect(next(b)).To(Equal(left("new", worklease.ExitFinished, runs)))
		})
	},
		Entry("14e: a Checkpoint that failed is made again", inject.Checkpoint, inject.Fail, errReset),
		Entry("14e: a Checkpoint whose reply was lost is made again", inject.Checkpoint, inject.LoseReply, errReset),
		Entry("14e: a Release that failed is made again", inject.Release, inject.Fail, errReset),
		Entry("14e: a Release whose reply was lost was recorded", inject.Release, inject.LoseReply, errReset),
		Entry("14e: so it is with a connection that ended", inject.Release, inject.LoseReply, io.EOF),
		Entry("14e: so it is with one that ended in the middle", inject.Release, inject.LoseReply, io.ErrUnexpectedEOF),
		Entry("14e: so it is with one that database/sql gave up", inject.Release, inject.LoseReply, driver.ErrBadConn),
		Entry("14e: so it is with what the backend expects to pass", inject.Release, inject.LoseReply, errStore),
	)

	It("14e: are made again with the renewal's backoff, not in a hurry", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Release, inject.Times(3, inject.Fail(errReset)))
			r := newRunner(worker.RunnerConfig{
				Lease:          newLease(b, runs),
				RenewalOptions: []worklease.RenewalOption{worklease.WithRenewalBackoff(200*time.Millisecond, time.Second, 0)},
				WorkFn:         returns(nil, nil),
			})
			start := time.Now()
			Expect(r.Run(context.Background(), work)).To(Succeed())
			Expect(time.Since(start)).To(Equal((200 + 400 + 800) * time.Millisecond))
		})
	})

	It("14e: are given up at CleanupTimeout with the last error", func() {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(inject.Release, inject.Fail(errReset))
			r := newRunner(worker.RunnerConfig{
				Lease: newLease(faulty, runs), CleanupTimeout: 2 * time.Second, WorkFn: returns([]byte("new"), errWork),
			})
			start := time.Now()
			err := r.Run(context.Background(), work)
			Expect(time.Since(start)).To(BeNumerically("<=", 2*time.Second))
			Expect(err).To(MatchError(errWork))
			Expect(err).To(MatchError(syscall.ECONNRESET))
			Expect(err).To(MatchError(ContainSubstring("worker: release: worklease: Release: workID=")))
			Expect(next(b)).To(Equal(left("new", worklease.ExitExpired, runs)))
		})
	})

	It("are made once where the error does not pass", func() {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(inject.Release, inject.Fail(errStore))
			err := run(context.Background(), faulty, returns([]byte("new"), nil))
			Expect(err).To(MatchError(errStore))
			Expect(err).To(MatchError(HavePrefix("worker: release: worklease: Release: ")))
			Expect(faults.Count(inject.Release)).To(Equal(1))
			Expect(next(b)).To(Equal(left("new", worklease.ExitExpired, runs)))
		})
	})

	DescribeTable("turn the exit into abandoned where the state cannot be stored", func(fromWork error) {
		bubble.Run(func() {
			b := memory.New()
			leave(b, worklease.ExitFinished)
			faults, faulty := inject.Around(b)
			faults.On(inject.Checkpoint, inject.Fail(errStore))
			err := run(context.Background(), faulty, returns([]byte("new"), fromWork))
			Expect(err).To(MatchError(errStore))
			Expect(err).To(MatchError(ContainSubstring("worker: checkpoint: worklease: Checkpoint: workID=")))
			Expect(err).NotTo(MatchError(worklease.ErrRetire))
			if errors.Is(fromWork, errWork) {
				Expect(err).To(MatchError(errWork))
			}
			Expect(next(b)).To(Equal(left("old", worklease.ExitAbandoned, runs)))
		})
	},
		Entry("after success", nil),
		Entry("after ErrRetire", worklease.ErrRetire),
		Entry("after an error, to which theirs is joined", errWork),
	)

	It("join both failures", func() {
		bubble.Run(func() {
			errOther := errors.New("refused again")
			faults, b := inject.Around(memory.New())
			faults.On(inject.Checkpoint, inject.Fail(errStore))
			faults.On(inject.Release, inject.Fail(errOther))
			err := run(context.Background(), b, returns([]byte("new"), errWork))
			for _, want := range []error{errWork, errStore, errOther} {
				Expect(err).To(MatchError(want))
			}
		})
	})

	DescribeTable("say ErrFenced when a successor was faster", func(op inject.Op, step string) {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(op, func(ctx context.Context, call inject.Call) error {
				_, err := b.Acquire(ctx, work, "thief", ttl)
				Expect(err).To(MatchError(worklease.ErrLeaseHeld))
				rec := backend.LeaseRecord{WorkID: work, HolderID: runs, FencingToken: 1}
				Expect(b.Forget(ctx, rec)).To(Succeed())
				_, err = b.Acquire(ctx, work, "thief", ttl)
				Expect(err).NotTo(HaveOccurred())
				return call.Do(ctx)
			})
			err := run(context.Background(), faulty, returns([]byte("new"), errWork))
			Expect(err).To(MatchError(worklease.ErrFenced))
			Expect(err).NotTo(MatchError(errWork))
			Expect(err).To(MatchError(HavePrefix("worker: " + step + ": worklease: ")))
			Expect(next(b)).To(Equal(left("", worklease.ExitExpired, "thief")))
		})
	},
		Entry("at the checkpoint", inject.Checkpoint, "checkpoint"),
		Entry("at the release", inject.Release, "release"),
	)

	It("call an exit that somebody else declared no success of theirs", func() {
		bubble.Run(func() {
			b := memory.New()
			err := run(context.Background(), b, func(_ context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				return nil, b.Release(context.Background(), record(token), worklease.ExitAbandoned)
			})
			Expect(err).To(MatchError(worklease.ErrLeaseExpired))
			Expect(next(b)).To(Equal(left("", worklease.ExitAbandoned, runs)))
		})
	})

	It("call a lease that lapsed between two attempts expired", func() {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(inject.Release, inject.Sequence(
				func(context.Context, inject.Call) error {
					bubble.Sleep(ttl)
					return errReset
				},
				inject.Pass,
			))
			r := newRunner(worker.RunnerConfig{
				Lease: newLease(faulty, runs), CleanupTimeout: time.Hour, WorkFn: returns(nil, nil),
			})
			Expect(r.Run(context.Background(), work)).To(MatchError(worklease.ErrLeaseExpired))
			Expect(next(b)).To(Equal(left("", worklease.ExitExpired, runs)))
		})
	})

	DescribeTable("are not waited for longer than CleanupTimeout", func(op inject.Op, timeout, want time.Duration) {
		bubble.Run(func() {
			released := make(chan struct{})
			defer close(released)
			faults, b := inject.Around(memory.New())
			faults.On(op, inject.Hang(released))
			var returned time.Time
			r := newRunner(worker.RunnerConfig{
				Lease: newLease(b, runs), CleanupTimeout: timeout,
				WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					bubble.Sleep(2 * ttl) // does not count
					returned = time.Now()
					return []byte("new"), errWork
				},
			})
			err := r.Run(context.Background(), work)
			Expect(time.Since(returned)).To(Equal(want))
			Expect(err).To(MatchError(errWork))
			Expect(err).To(MatchError(context.DeadlineExceeded))
		})
	},
		Entry("when the checkpoint hangs", inject.Checkpoint, 2*time.Second, 2*time.Second),
		Entry("when the release hangs", inject.Release, 2*time.Second, 2*time.Second),
		Entry("5 s unless it is set", inject.Release, time.Duration(0), 5*time.Second),
		Entry("5 s when it is below zero", inject.Checkpoint, -time.Second, 5*time.Second),
	)

	It("are made although the caller has been done for long", func() {
		bubble.Run(func() {
			b := memory.New()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			err := run(ctx, b, func(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				bubble.Sleep(3 * ttl)
				return []byte("new"), ctx.Err()
			})
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(next(b)).To(Equal(left("new", worklease.ExitAbandoned, runs)))
		})
	})
})

var _ = Describe("A wind-down", func() {
	It("14f: of three TTLs keeps its lease, and what it returns is stored", func() {
		bubble.Run(func() {
			b := memory.New()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var ended, taken time.Time
			successor := make(chan struct{})
			go func() {
				defer GinkgoRecover()
				defer close(successor)
				bubble.Sleep(time.Second)
				Expect(next(b)).To(Equal(left("new", worklease.ExitFinished, runs)))
				taken = time.Now()
			}()
			Expect(run(ctx, b, func(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				time.AfterFunc(2*time.Second, cancel)
				<-ctx.Done()
				bubble.Sleep(3 * ttl)
				ended = time.Now()
				return []byte("new"), nil
			})).To(Succeed())
			<-successor
			Expect(taken).To(BeTemporally(">=", ended))
		})
	})

	It("sees the cause that its caller gave", func() {
		bubble.Run(func() {
			ctx, cancel := context.WithCancelCause(context.Background())
			err := run(ctx, memory.New(), func(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				cancel(errWork)
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			Expect(err).To(BeIdenticalTo(errWork))
		})
	})

	It("that loses its lease stores nothing", func() {
		bubble.Run(func() {
			b := memory.New()
			leave(b, worklease.ExitFinished)
			faults, faulty := inject.Around(b)
			ctx, cancel := context.WithCancel(context.Background())
			err := run(ctx, faulty, func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				cancel()
				faults.On(inject.Renew, inject.Fail(errReset))
				bubble.Sleep(2 * ttl)
				return []byte("new"), errWork
			})
			Expect(err).To(MatchError(worklease.ErrLeaseWindowExhausted))
			Expect(err).To(MatchError(errWork))
			Expect(faults.Count(inject.Checkpoint)).To(BeZero())
			Expect(next(b)).To(Equal(left("old", worklease.ExitExpired, runs)))
		})
	})

	It("that is fenced says ErrFenced", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			ctx, cancel := context.WithCancel(context.Background())
			err := run(ctx, b, func(_ context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				cancel()
				fence(b, token)
				bubble.Sleep(ttl)
				return []byte("new"), nil
			})
			Expect(err).To(BeIdenticalTo(worklease.ErrFenced))
			Expect(faults.Count(inject.Checkpoint)).To(BeZero())
			Expect(next(b)).To(Equal(left("", worklease.ExitNone, "")))
		})
	})
})
