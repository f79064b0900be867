package worker_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/internal/watch"
	"github.com/aetomala/worklease/worker"
)

// foreign is a Lease by somebody else: its renewal knows nothing of the run, and
// it has the methods of the interface alone.
type foreign struct{ worklease.Lease }

func (f foreign) StartRenewal(ctx context.Context, token worklease.Token, opts ...worklease.RenewalOption) (context.Context, func()) {
	return f.Lease.StartRenewal(unwatched{ctx}, token, opts...)
}

type unwatched struct{ context.Context }

func (c unwatched) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*watch.Watch); ok {
		return nil
	}
	return v
}

func runForeign(ctx context.Context, l worklease.Lease, fn worker.WorkFn) error {
	GinkgoHelper()
	return newRunner(worker.RunnerConfig{Lease: foreign{l}, WorkFn: fn}).Run(ctx, work)
}

var _ = Describe("A Lease by somebody else", func() {
	It("runs, stores and releases", func() {
		bubble.Run(func() {
			b := memory.New()
			Expect(runForeign(context.Background(), newLease(b, runs), func(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
				bubble.Sleep(3 * ttl)
				return []byte("new"), context.Cause(ctx)
			})).To(Succeed())
			Expect(next(b)).To(Equal(left("new", worklease.ExitFinished, runs)))
		})
	})

	DescribeTable("loses a lease as ours does", func(lose func(context.Context, scene) error, want error) {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			err := runForeign(context.Background(), newLease(faulty, runs),
				func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
					return []byte("new"), lose(ctx, scene{backend: b, faults: faults, token: token})
				})
			Expect(err).To(MatchError(want))
			Expect(faults.Count(inject.Checkpoint)).To(BeZero())
			Expect(faults.Count(inject.Release)).To(BeZero())
		})
	},
		Entry("to a successor", fenced(nil), worklease.ErrFenced),
		Entry("to the clock", exhausted(nil), worklease.ErrLeaseWindowExhausted),
		Entry("to the store's clock", lapsed(nil), worklease.ErrLeaseExpired),
	)

	It("does not take the loss of an outer lease for its own", func() {
		bubble.Run(func() {
			b := memory.New()
			var inner error
			outer := newRunner(worker.RunnerConfig{
				Lease: newLease(b, "outer"),
				WorkFn: func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
					fence(b, token)
					inner = runForeign(ctx, newLease(b, runs), func(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
						<-ctx.Done()
						return []byte("half"), ctx.Err()
					})
					return nil, nil
				},
			})
			Expect(outer.Run(context.Background(), "outer work")).To(MatchError(worklease.ErrFenced))
			Expect(inner).To(MatchError(context.Canceled))
			Expect(inner).NotTo(MatchError(worklease.ErrFenced))
			Expect(next(b)).To(Equal(left("half", worklease.ExitAbandoned, runs)))
		})
	})

	It("14e: has a lost reply of its Release recorded while its window is open", func() {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(inject.Release, inject.Times(1, inject.LoseReply(errReset)))
			Expect(runForeign(context.Background(), newLease(faulty, runs), returns(nil, nil))).To(Succeed())
			Expect(next(b)).To(Equal(left("", worklease.ExitFinished, runs)))
		})
	})

	It("14c: gives a lease back that the caller came too late for", func() {
		bubble.Run(func() {
			b := memory.New()
			leave(b, worklease.ExitRetired)
			ctx, cancel := context.WithCancel(context.Background())
			Expect(runForeign(ctx, newObserved(b, runs, hooks{acquired: cancel}), never)).To(MatchError(context.Canceled))
			Expect(next(b).PrevExit).To(Equal(worklease.ExitRetired))
		})
	})
})
