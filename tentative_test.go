package worklease_test

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
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

// transactional is a backend whose checkpoints under inTransaction may be rolled
// back.
type transactional struct{ backend.Backend }

type transactionKey struct{}

func (transactional) Tentative(ctx context.Context) bool { return ctx.Value(transactionKey{}) != nil }

func (transactional) Generations() int { return 10 }

// inTransaction returns a context of a transaction of the caller's.
func inTransaction(ctx context.Context) context.Context {
	return context.WithValue(ctx, transactionKey{}, true)
}

var _ = Describe("A checkpoint inside the caller's transaction", func() {
	var (
		faults *inject.Faults
		seen   *recorder.Recorder
		lease  worklease.Lease
	)
	start := func() worklease.Token {
		var b backend.Backend
		faults, b = inject.Around(memory.New())
		seen = new(recorder.Recorder)
		lease = newLease(transactional{b}, "a", seen)
		return acquire(lease, "w")
	}

	It("does not move the window, which a renewal does after it", inBubble(func() {
		token := start()
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		renewCtx, stop := lease.StartRenewal(ctx, token)
		defer stop()
		acquired, _ := worklease.LeaseWindow(renewCtx)

		bubble.Sleep(time.Second)
		Expect(lease.Checkpoint(inTransaction(renewCtx), token, []byte("state"))).To(Succeed())
		Expect(read(lease, token).State).To(Equal([]byte("state")))
		deadline, ok := worklease.LeaseWindow(renewCtx)
		Expect(ok).To(BeTrue())
		Expect(deadline).To(Equal(acquired))

		Expect(lease.Checkpoint(renewCtx, token, []byte("state"))).To(Succeed())
		deadline, _ = worklease.LeaseWindow(renewCtx)
		Expect(deadline).To(Equal(acquired.Add(time.Second)))
	}))

	It("is waited for by its caller, whatever becomes of the context", inBubble(func() {
		token := start()
		faults.On(inject.Checkpoint, inject.Late(time.Minute))
		began := time.Now()
		Expect(lease.Checkpoint(inTransaction(within(time.Second)), token, nil)).To(Succeed())
		Expect(time.Since(began)).To(Equal(time.Minute))
	}))

	It("that failed is not overtaken by the next one, and has no later generation", inBubble(func() {
		token := start()
		var generations []int
		faults.On(inject.Checkpoint, func(ctx context.Context, call inject.Call) error {
			generations = append(generations, backend.Generation(ctx))
			return errNet
		})
		inside := inTransaction(background)
		for _, ctx := range []context.Context{inside, inside, background, inside} {
			Expect(lease.Checkpoint(ctx, token, nil)).To(MatchError(errNet))
		}
		Expect(generations).To(Equal([]int{0, 0, 0, 1}))
	}))

	It("is told like any other", inBubble(func() {
		token := start()
		seen.Reset()
		Expect(lease.Checkpoint(inTransaction(background), token, []byte("state"))).To(Succeed())
		faults.On(inject.Checkpoint, inject.Fail(worklease.ErrFenced))
		err := lease.Checkpoint(inTransaction(background), token, []byte("state"))
		Expect(err).To(MatchError(worklease.ErrFenced))
		Expect(err).To(MatchError(HavePrefix(`worklease: Checkpoint: workID="w" holderID="a": `)))
		Expect(seen.Names()).To(Equal([]string{"Checkpoint", "Checkpoint", "Fenced"}))
		Expect(recorder.All[worklease.CheckpointEvent](seen)[0].Size).To(Equal(len("state")))
	}))
})
