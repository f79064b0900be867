package worker_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/worker"
)

var _ = Describe("A final write without an answer", func() {
	DescribeTable("is made again beside itself after a quarter of CleanupTimeout", func(name inject.Op) {
		bubble.Run(func() {
			released := make(chan struct{})
			defer close(released)
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(name, inject.Times(1, inject.Hang(released)))
			r := newRunner(worker.RunnerConfig{
				Lease: newLease(faulty, runs), CleanupTimeout: 2 * time.Second, WorkFn: returns([]byte("new"), nil),
			})
			start := time.Now()
			Expect(r.Run(context.Background(), work)).To(Succeed())
			Expect(time.Since(start)).To(Equal(500 * time.Millisecond))
			Expect(next(b)).To(Equal(left("new", worklease.ExitFinished, runs)))
		})
	},
		Entry("1d: a Checkpoint", inject.Checkpoint),
		Entry("1d: a Release", inject.Release),
	)

	It("counts where it answers late after all", func() {
		bubble.Run(func() {
			b := memory.New()
			faults, faulty := inject.Around(b)
			faults.On(inject.Release, inject.Late(1200*time.Millisecond))
			r := newRunner(worker.RunnerConfig{
				Lease: newLease(faulty, runs), CleanupTimeout: 2 * time.Second, WorkFn: returns(nil, nil),
			})
			start := time.Now()
			Expect(r.Run(context.Background(), work)).To(Succeed())
			Expect(time.Since(start)).To(Equal(1200 * time.Millisecond))
			Expect(next(b)).To(Equal(left("", worklease.ExitFinished, runs)))
		})
	})

	It("is made no more than twice, and for no longer than CleanupTimeout", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			defer close(released)
			faults, faulty := inject.Around(memory.New())
			faults.On(inject.Release, inject.Hang(released))
			r := newRunner(worker.RunnerConfig{
				Lease: newLease(faulty, runs), CleanupTimeout: 2 * time.Second, WorkFn: returns(nil, nil),
			})
			start := time.Now()
			Expect(r.Run(context.Background(), work)).To(MatchError(context.DeadlineExceeded))
			Expect(time.Since(start)).To(Equal(2 * time.Second))
			Expect(faults.Count(inject.Release)).To(Equal(2))
		})
	})
})
