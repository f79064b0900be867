package recorder_test

import (
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

func TestRecorder(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "recorder")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

var _ = Describe("Recorder", func() {
	It("keeps every event in order with its context", func(ctx SpecContext) {
		var rec recorder.Recorder
		b := memory.New()
		lease, err := worklease.New(b, worklease.Config{TTL: time.Minute, HolderID: "a", Observer: &rec})
		Expect(err).NotTo(HaveOccurred())
		vacuum, err := worklease.NewVacuum(b, worklease.VacuumConfig{Observer: &rec})
		Expect(err).NotTo(HaveOccurred())

		token, err := lease.Acquire(ctx, "w")
		Expect(err).NotTo(HaveOccurred())
		Expect(lease.ReadCheckpoint(ctx, token)).Error().NotTo(HaveOccurred())
		Expect(lease.Checkpoint(ctx, token, []byte("state"))).To(Succeed())
		Expect(lease.Renew(ctx, token)).To(Succeed())
		Expect(lease.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
		Expect(lease.Forget(ctx, token)).To(Succeed())
		Expect(lease.Forget(ctx, token)).To(MatchError(worklease.ErrFenced))
		Expect(vacuum.Sweep(ctx, worklease.SweepOptions{Retention: time.Hour})).To(BeZero())

		Expect(rec.Names()).To(Equal([]string{
			"Acquire", "ReadCheckpoint", "Checkpoint", "Renew", "Release", "Forget", "Forget", "Fenced", "Sweep",
		}))
		Expect(rec.Entries()).To(HaveEach(HaveField("Ctx", BeIdenticalTo(ctx))))
		Expect(recorder.All[worklease.CheckpointEvent](&rec)).To(HaveExactElements(HaveField("Size", 5)))

		rec.Reset()
		Expect(rec.Entries()).To(BeEmpty())
	})

	It("loses nothing that is told at the same time", func(ctx SpecContext) {
		var (
			rec  recorder.Recorder
			told sync.WaitGroup
		)
		for range 100 {
			told.Go(func() { rec.OnFenced(ctx, worklease.FencedEvent{}) })
		}
		told.Wait()
		Expect(recorder.All[worklease.FencedEvent](&rec)).To(HaveLen(100))
	})
})
