package worklease_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

var _ = Describe("LeaseObserver", func() {
	// events runs what happens on one lease, its calls a second long each.
	events := func(happens func(worklease.Lease, worklease.Token)) (worklease.Token, []any) {
		var seen recorder.Recorder
		faults, b := inject.Around(memory.New())
		lease := newLease(b, "a", &seen)
		token := acquire(lease, "w")
		for _, o := range operations {
			faults.On(o.op, inject.Slow(time.Second))
		}
		seen.Reset()
		happens(lease, token)
		var list []any
		for _, entry := range seen.Entries() {
			list = append(list, entry.Event)
		}
		return token, list
	}

	It("is told of a Checkpoint: token, size and duration", inBubble(func() {
		token, list := events(func(l worklease.Lease, t worklease.Token) {
			Expect(l.Checkpoint(background, t, []byte("state"))).To(Succeed())
		})
		Expect(list).To(HaveExactElements(worklease.CheckpointEvent{Token: token, Size: 5, Duration: time.Second}))
	}))

	It("is told of a direct Renew as attempt 1, however many failed before", inBubble(func() {
		token, list := events(func(l worklease.Lease, t worklease.Token) {
			Expect(l.Renew(within(time.Millisecond), t)).NotTo(Succeed())
			Expect(l.Renew(background, t)).To(Succeed())
		})
		Expect(list).To(HaveExactElements(
			And(HaveField("Attempt", 1), HaveField("Err", MatchError(context.DeadlineExceeded)), HaveField("Duration", time.Millisecond)),
			Equal(worklease.RenewEvent{Token: token, Attempt: 1, Duration: time.Second}),
		))
	}))

	It("is told of a Release: token, mode and duration", inBubble(func() {
		token, list := events(func(l worklease.Lease, t worklease.Token) {
			Expect(l.Release(background, t, worklease.ExitRetired)).To(Succeed())
		})
		Expect(list).To(HaveExactElements(worklease.ReleaseEvent{Token: token, Mode: worklease.ExitRetired, Duration: time.Second}))
	}))

	It("is told of a ReadCheckpoint: what was found", inBubble(func() {
		var seen recorder.Recorder
		b := memory.New()
		before := newLease(b, "before")
		token := acquire(before, "w")
		Expect(before.Checkpoint(background, token, []byte("state"))).To(Succeed())
		Expect(before.Release(background, token, worklease.ExitAbandoned)).To(Succeed())
		lease := newLease(b, "a", &seen)
		token = acquire(lease, "w")
		read(lease, token)
		Expect(recorder.All[worklease.ReadCheckpointEvent](&seen)).To(HaveExactElements(worklease.ReadCheckpointEvent{
			Token: token, PrevExit: worklease.ExitAbandoned, PrevHolderID: "before", Size: 5,
		}))
	}))

	It("is told of a Forget: token and duration", inBubble(func() {
		token, list := events(func(l worklease.Lease, t worklease.Token) {
			Expect(l.Forget(background, t)).To(Succeed())
		})
		Expect(list).To(HaveExactElements(worklease.ForgetEvent{Token: token, Duration: time.Second}))
	}))

	It("is told of every attempt of a waiting Acquire, with a token only in the one that succeeded", inBubble(func() {
		var seen recorder.Recorder
		faults, b := inject.Around(memory.New())
		acquire(newLease(b, "a"), "w")
		faults.On(inject.Acquire, inject.Slow(100*time.Millisecond))
		lease := newLease(b, "b", &seen)
		token := acquire(lease, "w", worklease.WithWaitForLease())

		attempts := recorder.All[worklease.AcquireEvent](&seen)
		Expect(len(attempts)).To(Equal(faults.Count(inject.Acquire) - 1))
		Expect(len(attempts)).To(BeNumerically(">", 4))
		Expect(attempts).To(HaveEach(And(HaveField("WorkID", "w"), HaveField("Duration", 100*time.Millisecond))))
		last := len(attempts) - 1
		Expect(attempts[:last]).To(HaveEach(And(
			HaveField("Token", BeZero()), HaveField("Err", MatchError(worklease.ErrLeaseHeld)))))
		Expect(attempts[last]).To(And(HaveField("Token", token), HaveField("Err", Succeed())))
	}))

	It("does not count the wait for an abandoned call into an Acquire's duration", inBubble(func() {
		var seen recorder.Recorder
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Times(1, inject.Slow(5*time.Second)))
		lease := newLease(b, "a", &seen)
		Expect(failure(lease.Acquire(within(time.Second), "w"))).To(MatchError(context.DeadlineExceeded))
		acquire(lease, "w")
		Expect(recorder.All[worklease.AcquireEvent](&seen)).To(HaveExactElements(
			HaveField("Duration", time.Second),
			HaveField("Duration", time.Duration(0)),
		))
		Expect(faults.Count(inject.Renew)).To(BeZero(), "nor into the age of its token")
	}))

	DescribeTable("is told of the operation first, then that it was fenced", func(o operation, names ...string) {
		var seen recorder.Recorder
		lease := newLease(memory.New(), "a", &seen)
		token := acquire(lease, "w")
		Expect(lease.Forget(background, token)).To(Succeed())
		seen.Reset()
		Expect(o.call(background, lease, token)).To(MatchError(worklease.ErrFenced))
		Expect(seen.Names()).To(Equal(names))
		for _, e := range recorder.All[worklease.FencedEvent](&seen) {
			Expect(e.Token).To(Equal(token))
			Expect(e.Operation.String()).To(Equal(o.name))
		}
	},
		Entry("Checkpoint", operations[1], "Checkpoint", "Fenced"),
		Entry("Renew", operations[2], "Renew", "Fenced"),
		Entry("Release", operations[3], "Release", "Fenced"),
		Entry("Forget", operations[4], "Forget", "Fenced"),
		Entry("but not of a ReadCheckpoint", operations[0], "ReadCheckpoint"),
	)

	It("gets the error that the caller gets, and the caller's context", func() {
		for _, o := range operations {
			var seen recorder.Recorder
			faults, b := inject.Around(memory.New())
			lease := newLease(b, "a", &seen)
			token := acquire(lease, "w")
			faults.On(o.op, inject.Fail(errNet))
			type key struct{}
			ctx := context.WithValue(background, key{}, o.name)
			seen.Reset()
			err := o.call(ctx, lease, token)
			Expect(seen.Entries()).To(HaveExactElements(And(
				HaveField("Name", o.name),
				HaveField("Ctx", BeIdenticalTo(ctx)),
				HaveField("Event.Err", BeIdenticalTo(err)),
			)))
		}
	})

	It("may call the Lease", func(ctx SpecContext) {
		var lease worklease.Lease
		observer := &reacting{react: func(token worklease.Token) {
			defer GinkgoRecover()
			Expect(lease.Renew(ctx, token)).To(Succeed())
		}}
		lease = newLease(memory.New(), "a", observer)
		Expect(lease.Checkpoint(ctx, acquire(lease, "w"), nil)).To(Succeed())
		Expect(observer.called).To(Equal(1))
	}, SpecTimeout(10*time.Second))
})

// reacting is an observer that acts on a Checkpoint.
type reacting struct {
	worklease.NoopObserver
	react  func(worklease.Token)
	called int
}

func (r *reacting) OnCheckpoint(_ context.Context, event worklease.CheckpointEvent) {
	r.called++
	r.react(event.Token)
}

var _ = Describe("Operation", func() {
	DescribeTable("prints its name", func(op worklease.Operation, want string) {
		Expect(op.String()).To(Equal(want))
	},
		Entry(nil, worklease.OperationCheckpoint, "Checkpoint"),
		Entry(nil, worklease.OperationRenew, "Renew"),
		Entry(nil, worklease.OperationRelease, "Release"),
		Entry(nil, worklease.OperationForget, "Forget"),
		Entry(nil, worklease.Operation(7), "Operation(7)"),
	)
})
