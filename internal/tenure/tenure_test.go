package tenure_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/gate"
	"github.com/aetomala/worklease/internal/tenure"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
)

func TestTenure(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/tenure")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

const (
	work = "work"
	ttl  = 10 * time.Second
)

var errWork = errors.New("the work failed")

func terms(b backend.Backend) tenure.Terms {
	GinkgoHelper()
	l, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: "a"})
	Expect(err).NotTo(HaveOccurred())
	return tenure.Terms{Package: "spec", Lease: l, Cleanup: tenure.CleanupWithin(0)}
}

func returns(state []byte, err error) tenure.Body {
	return func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) { return state, err }
}

// next is what the next holder finds, once it can take the lease.
func next(b backend.Backend) worklease.Checkpoint {
	GinkgoHelper()
	var rec backend.LeaseRecord
	Eventually(func() (err error) {
		rec, err = b.Acquire(context.Background(), work, "b", ttl)
		return err
	}).WithTimeout(2 * ttl).WithPolling(100 * time.Millisecond).Should(Succeed())
	cp, err := b.ReadCheckpoint(context.Background(), rec)
	Expect(err).NotTo(HaveOccurred())
	return cp
}

var _ = Describe("Run", func() {
	DescribeTable("says how it ended", func(prepare func(*inject.Faults, context.CancelFunc), body tenure.Body, want tenure.Outcome, match error) {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			prepare(faults, cancel)
			t := terms(b)
			result := t.Run(ctx, work, body)
			Expect(result.Outcome).To(Equal(want))
			if match == nil {
				Expect(result.Err).NotTo(HaveOccurred())
			} else {
				Expect(result.Err).To(MatchError(match))
			}
			if want == tenure.NotAcquired {
				Expect(result.Token).To(Equal(worklease.Token{}))
			} else {
				Expect(result.Token.WorkID()).To(Equal(work))
			}
		})
	},
		Entry("not acquired", fails(inject.Acquire), returns(nil, nil), tenure.NotAcquired, errWork),
		Entry("not entered, for want of a checkpoint", fails(inject.ReadCheckpoint), returns(nil, nil), tenure.NotEntered, errWork),
		Entry("not entered, for a caller that is done", func(f *inject.Faults, cancel context.CancelFunc) {
			f.On(inject.ReadCheckpoint, func(ctx context.Context, call inject.Call) error {
				cancel()
				return call.Do(ctx)
			})
		}, returns(nil, nil), tenure.NotEntered, context.Canceled),
		Entry("fenced, by the body's word", nothing, returns(nil, worklease.ErrFenced), tenure.Fenced, worklease.ErrFenced),
		Entry("fenced, at the checkpoint", answers(inject.Checkpoint, backend.ErrFenced), returns([]byte("s"), nil), tenure.Fenced, worklease.ErrFenced),
		Entry("fenced, at the release", answers(inject.Release, backend.ErrFenced), returns(nil, nil), tenure.Fenced, worklease.ErrFenced),
		Entry("fenced, at a renewal", answers(inject.Renew, backend.ErrFenced), untilDone, tenure.Fenced, worklease.ErrFenced),
		Entry("exhausted", fails(inject.Renew), untilDone, tenure.Exhausted, worklease.ErrLeaseWindowExhausted),
		Entry("exhausted, by the store's word", answers(inject.Renew, backend.ErrLeaseExpired), untilDone, tenure.Exhausted, worklease.ErrLeaseExpired),
		Entry("finished", nothing, returns(nil, nil), tenure.Finished, nil),
		Entry("retired", nothing, returns(nil, worklease.ErrRetire), tenure.Retired, nil),
		Entry("failed, by the body's word", nothing, returns(nil, errWork), tenure.Failed, errWork),
		Entry("failed, at the checkpoint", fails(inject.Checkpoint), returns([]byte("s"), nil), tenure.Failed, errWork),
		Entry("failed, at the checkpoint of a retirement", fails(inject.Checkpoint), returns([]byte("s"), worklease.ErrRetire), tenure.Failed, errWork),
		Entry("failed, at the release", fails(inject.Release), returns(nil, nil), tenure.Failed, errWork),
		Entry("failed, at the release of a retirement", fails(inject.Release), returns(nil, worklease.ErrRetire), tenure.Failed, errWork),
	)

	It("names its package in front of errors", func(ctx SpecContext) {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Fail(errWork))
		t := terms(b)
		Expect(t.Run(ctx, work, returns(nil, nil)).Err).To(MatchError(HavePrefix("spec: acquire: worklease: Acquire: ")))
	}, SpecTimeout(time.Minute))

	It("reads and writes no checkpoint where it is stateless", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			t := terms(b)
			t.Stateless = true
			result := t.Run(context.Background(), work, returns([]byte("ignored"), nil))
			Expect(result.Outcome).To(Equal(tenure.Finished))
			Expect(faults.Count(inject.ReadCheckpoint)).To(BeZero())
			Expect(faults.Count(inject.Checkpoint)).To(BeZero())
			Expect(next(b)).To(Equal(worklease.Checkpoint{PrevExit: worklease.ExitFinished, PrevHolderID: "a"}))
		})
	})

	It("asks for the bound of the final writes when the body has returned", func() {
		bubble.Run(func() {
			type key struct{}
			ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
			var asked, returned time.Time
			t := terms(memory.New())
			t.Cleanup = func(ctx context.Context) (context.Context, context.CancelFunc) {
				asked = time.Now()
				Expect(ctx.Err()).NotTo(HaveOccurred())
				Expect(ctx.Value(key{})).To(Equal("value"))
				return context.WithTimeout(ctx, time.Second)
			}
			result := t.Run(ctx, work, func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				cancel()
				bubble.Sleep(ttl)
				returned = time.Now()
				return nil, nil
			})
			Expect(result.Outcome).To(Equal(tenure.Finished))
			Expect(asked).To(Equal(returned))
		})
	})

	It("makes its calls through the gate, and its body outside of it", func() {
		bubble.Run(func() {
			g := gate.New(1)
			t := terms(memory.New())
			t.Gate = g
			passes := func() {
				GinkgoHelper()
				soon, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				Expect(g.Enter(soon, false)).To(Succeed())
				g.Leave()
			}
			Expect(g.Enter(context.Background(), false)).To(Succeed())
			entered := time.AfterFunc(time.Minute, g.Leave)
			defer entered.Stop()
			start := time.Now()
			result := t.Run(context.Background(), work, func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				Expect(time.Since(start)).To(Equal(time.Minute))
				passes()
				return []byte("state"), nil
			})
			Expect(result.Outcome).To(Equal(tenure.Finished))
			passes()
		})
	})
})

func nothing(*inject.Faults, context.CancelFunc) {}

func fails(op inject.Op) func(*inject.Faults, context.CancelFunc) { return answers(op, errWork) }

func answers(op inject.Op, err error) func(*inject.Faults, context.CancelFunc) {
	return func(f *inject.Faults, _ context.CancelFunc) { f.On(op, inject.Fail(err)) }
}

func untilDone(ctx context.Context, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
	<-ctx.Done()
	return []byte("lost"), nil
}
