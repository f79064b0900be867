package worker_test

import (
	"context"
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

// hooks calls back after an acquisition and after a read.
type hooks struct {
	worklease.NoopObserver
	acquired, read func()
}

func (h hooks) OnAcquire(context.Context, worklease.AcquireEvent) {
	if h.acquired != nil {
		h.acquired()
	}
}

func (h hooks) OnReadCheckpoint(context.Context, worklease.ReadCheckpointEvent) {
	if h.read != nil {
		h.read()
	}
}

// wrapper hides what the Lease of package worklease has beyond the interface.
type wrapper struct{ worklease.Lease }

// bare hides what a backend has beyond the interface.
type bare struct{ backend.Backend }

var _ = Describe("A caller that is done before the function is entered", func() {
	// How the lease is given back.
	type way struct {
		name    string
		backend func(backend.Backend) backend.Backend
		lease   func(worklease.Lease) worklease.Lease
		exact   bool
	}
	ours := func(l worklease.Lease) worklease.Lease { return l }
	wrapped := func(l worklease.Lease) worklease.Lease { return wrapper{l} }
	full := func(b backend.Backend) backend.Backend { return b }
	bared := func(b backend.Backend) backend.Backend { return bare{b} }
	ways := []way{
		{"exactly", full, ours, true},
		{"by a wrapped Lease", full, wrapped, false},
		{"on a backend that cannot", bared, ours, false},
		{"by a wrapped Lease on such a one", bared, wrapped, false},
	}
	modes := []worklease.ExitMode{
		worklease.ExitNone, worklease.ExitFinished, worklease.ExitAbandoned, worklease.ExitRetired, worklease.ExitExpired,
	}

	var entries []any
	for _, w := range ways {
		for _, mode := range modes {
			entries = append(entries, Entry("14c: the lease goes back as it was found, "+mode.String()+", "+w.name, w, mode))
		}
	}
	DescribeTable("gives the lease back", append([]any{func(w way, mode worklease.ExitMode) {
		bubble.Run(func() {
			b := memory.New()
			leave(b, mode)
			ctx, cancel := context.WithCancel(context.Background())
			r := newRunner(worker.RunnerConfig{
				Lease:  w.lease(newObserved(w.backend(b), runs, hooks{acquired: cancel})),
				WorkFn: never,
			})
			start := time.Now()
			err := r.Run(ctx, work)
			Expect(err).To(MatchError(context.Canceled))
			Expect(err).To(MatchError(HavePrefix("worker: ")))
			Expect(time.Since(start)).To(BeZero())

			// What cannot be declared is left to lapse, without the exact way.
			if w.exact || mode != worklease.ExitExpired {
				isFree(b)
			}
			found := next(b)
			Expect(found.PrevExit).To(Equal(mode))
			switch {
			case mode == worklease.ExitNone:
				Expect(found).To(Equal(worklease.Checkpoint{}))
			case w.exact:
				Expect(found).To(Equal(left("old", mode, before)))
			default:
				Expect(found.State).To(Equal([]byte("old")))
			}
		})
	}}, entries...)...)

	It("14c: is noticed after the checkpoint was read, too", func() {
		bubble.Run(func() {
			b := memory.New()
			leave(b, worklease.ExitRetired)
			ctx, cancel := context.WithCancel(context.Background())
			r := newRunner(worker.RunnerConfig{Lease: newObserved(b, runs, hooks{read: cancel}), WorkFn: never})
			Expect(r.Run(ctx, work)).To(MatchError(context.Canceled))
			Expect(next(b)).To(Equal(left("old", worklease.ExitRetired, before)))
		})
	})

	It("14c: is noticed while the checkpoint is being read", func() {
		bubble.Run(func() {
			b := memory.New()
			leave(b, worklease.ExitRetired)
			released := make(chan struct{})
			faults, faulty := inject.Around(b)
			faults.On(inject.ReadCheckpoint, inject.Times(1, inject.Hang(released)))
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			start := time.Now()
			Expect(run(ctx, faulty, never)).To(MatchError(context.DeadlineExceeded))
			Expect(time.Since(start)).To(Equal(time.Second))
			close(released)
			Expect(next(b)).To(Equal(left("old", worklease.ExitRetired, before)))
		})
	})

	It("14c: waits for the give-back no longer than CleanupTimeout", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			defer close(released)
			faults, b := inject.Around(memory.New())
			faults.On(inject.Restore, inject.Hang(released))
			ctx, cancel := context.WithCancel(context.Background())
			r := newRunner(worker.RunnerConfig{
				Lease: newObserved(b, runs, hooks{acquired: cancel}), CleanupTimeout: 2 * time.Second, WorkFn: never,
			})
			start := time.Now()
			err := r.Run(ctx, work)
			Expect(time.Since(start)).To(Equal(2 * time.Second))
			Expect(err).To(MatchError(context.Canceled))
			Expect(err).To(MatchError(ContainSubstring("worker: give back: worklease: Restore: ")))
		})
	})

	DescribeTable("gives back through one connection reset", func(fault inject.Fault, mode worklease.ExitMode) {
		bubble.Run(func() {
			b := memory.New()
			leave(b, mode)
			faults, faulty := inject.Around(b)
			faults.On(inject.Restore, inject.Times(1, fault))
			ctx, cancel := context.WithCancel(context.Background())
			r := newRunner(worker.RunnerConfig{Lease: newObserved(faulty, runs, hooks{acquired: cancel}), WorkFn: never})
			err := r.Run(ctx, work)
			Expect(err).To(MatchError(context.Canceled))
			Expect(err).NotTo(MatchError(worklease.ErrFenced))
			Expect(next(b).PrevExit).To(Equal(mode))
		})
	},
		Entry("14c: before the call, on a row", inject.Fail(errReset), worklease.ExitFinished),
		Entry("14c: after the call, on a row", inject.LoseReply(errReset), worklease.ExitFinished),
		Entry("14c: before the call, on no row", inject.Fail(errReset), worklease.ExitNone),
		Entry("14c: after the call, on no row", inject.LoseReply(errReset), worklease.ExitNone),
	)

	It("says why the lease could not be given back", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Restore, inject.Fail(errStore))
			ctx, cancel := context.WithCancel(context.Background())
			r := newRunner(worker.RunnerConfig{Lease: newObserved(b, runs, hooks{acquired: cancel}), WorkFn: never})
			err := r.Run(ctx, work)
			Expect(err).To(MatchError(context.Canceled))
			Expect(err).To(MatchError(errStore))
		})
	})

	It("acquires nothing when it was done at the call", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			err := run(ctx, b, never)
			Expect(err).To(MatchError(context.Canceled))
			Expect(err).To(MatchError(HavePrefix("worker: acquire: ")))
			Expect(faults.Count(inject.Acquire)).To(BeZero())
		})
	})
})

var _ = Describe("A checkpoint that cannot be read", func() {
	It("keeps the function from being entered, and the lease lapses", func() {
		bubble.Run(func() {
			b := memory.New()
			leave(b, worklease.ExitFinished)
			faults, faulty := inject.Around(b)
			faults.On(inject.ReadCheckpoint, inject.Fail(errStore))
			start := time.Now()
			err := run(context.Background(), faulty, never)
			Expect(err).To(MatchError(errStore))
			Expect(err).To(MatchError(HavePrefix("worker: read checkpoint: worklease: ReadCheckpoint: ")))
			Expect(next(b)).To(Equal(left("old", worklease.ExitExpired, runs)))
			Expect(time.Since(start)).To(BeNumerically(">=", ttl))
			Expect(faults.Count(inject.Release)).To(BeZero())
		})
	})

	It("says ErrFenced when a successor was faster", func() {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(inject.ReadCheckpoint, func(ctx context.Context, call inject.Call) error {
				Expect(b.Forget(ctx, backend.LeaseRecord{WorkID: work, HolderID: runs, FencingToken: 1})).To(Succeed())
				return call.Do(ctx)
			})
			Expect(run(context.Background(), faulty, never)).To(MatchError(worklease.ErrFenced))
		})
	})

	It("is not waited for beyond the lease's window", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			defer close(released)
			faults, b := inject.Around(memory.New())
			faults.On(inject.ReadCheckpoint, inject.Hang(released))
			start := time.Now()
			err := run(context.Background(), b, never)
			Expect(time.Since(start)).To(Equal(ttl))
			Expect(err).To(MatchError(worklease.ErrLeaseWindowExhausted))
			Expect(err).To(MatchError(HavePrefix("worker: read checkpoint: ")))
		})
	})
})
