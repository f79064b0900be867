package worklease_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

var _ = Describe("NewVacuum", func() {
	DescribeTable("refuses to work on nothing", func(b backend.Backend) {
		vacuum, err := worklease.NewVacuum(b, worklease.VacuumConfig{})
		Expect(vacuum).To(BeNil())
		Expect(err).To(And(MatchError(worklease.ErrNilBackend), MatchError(worklease.ErrConfigInvalid)))
	},
		Entry("nil", nil),
		Entry("a typed nil", (*memory.Backend)(nil)),
	)
})

var _ = Describe("Sweep", func() {
	const week = 7 * 24 * time.Hour

	var (
		seen   *recorder.Recorder
		faults *inject.Faults
		b      backend.Backend
		vacuum *worklease.Vacuum
	)
	BeforeEach(func() {
		seen = new(recorder.Recorder)
		faults, b = inject.Around(memory.New())
		var err error
		vacuum, err = worklease.NewVacuum(b, worklease.VacuumConfig{Observer: seen})
		Expect(err).NotTo(HaveOccurred())
	})

	// leaveOneOfEach leaves a row of every kind, named after it.
	leaveOneOfEach := func() {
		lease := newLease(b, "a")
		for _, mode := range []worklease.ExitMode{worklease.ExitFinished, worklease.ExitAbandoned, worklease.ExitRetired} {
			Expect(lease.Release(background, acquire(lease, mode.String()), mode)).To(Succeed())
		}
		acquire(lease, "expired")
	}

	DescribeTable("deletes what its options select, and reports it",
		func(opts worklease.SweepOptions, age time.Duration, gone ...string) {
			inBubble(func() {
				leaveOneOfEach()
				bubble.Sleep(age)
				held := acquire(newLease(b, "b"), "held")
				Expect(vacuum.Sweep(background, opts)).To(BeNumerically("==", len(gone)))

				Expect(recorder.All[worklease.SweepEvent](seen)).To(HaveExactElements(
					worklease.SweepEvent{Options: opts, Deleted: int64(len(gone))}))
				next := newLease(b, "next")
				for _, id := range []string{"finished", "abandoned", "retired", "expired"} {
					none := Equal(worklease.ExitNone)
					exit := read(next, acquire(next, id)).PrevExit
					if slices.Contains(gone, id) {
						Expect(exit).To(none, id)
					} else {
						Expect(exit).NotTo(none, id)
					}
				}
				Expect(newLease(b, "b").Renew(background, held)).To(Succeed())
			})()
		},
		Entry("retired rows past the retention", worklease.SweepOptions{Retention: week}, week+1, "retired"),
		Entry("expired ones too when asked", worklease.SweepOptions{Retention: week, IncludeExpired: true}, week+1, "retired", "expired"),
		Entry("nothing younger", worklease.SweepOptions{Retention: week, IncludeExpired: true}, week),
	)

	DescribeTable("refuses a retention that would keep nothing, before the backend is reached", func(d time.Duration) {
		Expect(vacuum.Sweep(background, worklease.SweepOptions{Retention: d})).Error().To(And(
			MatchError(worklease.ErrRetentionRequired), MatchError(worklease.ErrConfigInvalid)))
		Expect(faults.Count(inject.Sweep)).To(BeZero())
		Expect(seen.Entries()).To(BeEmpty())
	},
		Entry("zero", time.Duration(0)),
		Entry("below zero", -time.Second),
	)

	It("refuses the zero Vacuum", func() {
		var nothing *worklease.Vacuum
		for _, v := range []*worklease.Vacuum{nothing, {}} {
			Expect(v.Sweep(background, worklease.SweepOptions{Retention: week})).Error().To(And(
				MatchError(worklease.ErrNilBackend), MatchError(worklease.ErrConfigInvalid)))
		}
	})

	It("needs no observer", func() {
		v, err := worklease.NewVacuum(b, worklease.VacuumConfig{})
		Expect(err).NotTo(HaveOccurred())
		Expect(v.Sweep(background, worklease.SweepOptions{Retention: week})).To(BeZero())
	})

	It("returns and reports the backend's error", inBubble(func() {
		faults.On(inject.Sweep, func(context.Context, inject.Call) error {
			bubble.Sleep(time.Second)
			return errNet
		})
		Expect(vacuum.Sweep(background, worklease.SweepOptions{Retention: week})).Error().To(MatchError(errNet))
		Expect(recorder.All[worklease.SweepEvent](seen)).To(HaveExactElements(And(
			HaveField("Err", MatchError(errNet)), HaveField("Duration", time.Second))))
	}))

	It("returns the count so far with the context's error, where the backend says so within a second", inBubble(func() {
		leaveOneOfEach()
		bubble.Sleep(week + 1)
		faults.On(inject.Sweep, func(ctx context.Context, call inject.Call) error {
			Expect(call.Do(ctx)).To(Succeed())
			<-ctx.Done()
			bubble.Sleep(time.Second - 1)
			return ctx.Err()
		})
		n, err := vacuum.Sweep(within(time.Second), worklease.SweepOptions{Retention: week})
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(n).To(BeNumerically("==", 1))
		Expect(recorder.All[worklease.SweepEvent](seen)).To(HaveExactElements(HaveField("Deleted", n)))
	}))

	It("ends a second after ctx although the driver does not", inBubble(func() {
		faults.On(inject.Sweep, hang)
		start := time.Now()
		_, err := vacuum.Sweep(within(time.Second), worklease.SweepOptions{Retention: week})
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(time.Since(start)).To(Equal(2 * time.Second))
	}))
})
