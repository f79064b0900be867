//go:build long

package pool_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/pool"
)

var _ = Describe("A large pool on PostgreSQL", func() {
	It("has 10,000 slots working in under a minute over 20 connections, and keeps them renewed", Label("long", "timed"), func(ctx SpecContext) {
		const (
			slots       = 10_000
			connections = 20
		)
		var renewed counter
		lease := leaseOn(connect("10k", connections), 20*time.Second, &renewed)
		var (
			told    = &misfortunes{}
			working atomic.Int32
			all     = make(chan struct{})
		)
		p, err := pool.New(lease, pool.Config{
			WorkIDs:        prefixed("10k-", slots),
			Observer:       told,
			CleanupTimeout: time.Minute,
		}, func(ctx context.Context, _ string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			if working.Add(1) == slots {
				close(all)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		Expect(err).NotTo(HaveOccurred())

		before := inUse()
		peak := watchPeak(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = '10k'`)
		begin := time.Now()
		runCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- p.Run(runCtx) }()
		Eventually(all, time.Minute).Should(BeClosed())
		AddReportEntry("until all slots worked", time.Since(begin).Round(time.Millisecond).String())
		AddReportEntry("memory a slot", fmt.Sprintf("%d bytes", (inUse()-before)/slots))

		renewBegin, already := time.Now(), renewed.n.Load()
		Eventually(func() int64 { return renewed.n.Load() - already }, time.Minute).Should(BeNumerically(">=", slots))
		AddReportEntry("renewals a second", fmt.Sprintf("%.0f", slots/time.Since(renewBegin).Seconds()))
		Expect(told.all()).To(BeEmpty())

		stopBegin := time.Now()
		cancel()
		Eventually(result, 2*time.Minute).Should(Receive(BeNil()))
		AddReportEntry("shutdown", time.Since(stopBegin).Round(time.Millisecond).String())
		Expect(number(ctx, heldRows, "10k-")).To(BeZero())
		Expect(peak()).To(And(BeNumerically(">", connections/2), BeNumerically("<=", connections)))
	}, SpecTimeout(4*time.Minute))
})

// watchPeak asks question again and again until it is asked itself for the
// greatest answer.
func watchPeak(ctx context.Context, question string) func() int {
	ctx, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	most := make(chan int, 1)
	go func() {
		peak := 0
		for ctx.Err() == nil {
			var n int
			if err := ask.QueryRowContext(ctx, question).Scan(&n); err == nil {
				peak = max(peak, n)
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		most <- peak
	}()
	return func() int {
		cancel()
		return <-most
	}
}

// inUse returns the bytes of heap and stacks in use.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// counter counts renewals that succeeded.
type counter struct {
	worklease.NoopObserver
	n atomic.Int64
}

func (c *counter) OnRenew(_ context.Context, e worklease.RenewEvent) {
	if e.Err == nil {
		c.n.Add(1)
	}
}

// misfortunes is a diary that leaves the ten thousand good news out.
type misfortunes struct{ diary }

func (*misfortunes) OnSlotAcquired(context.Context, pool.SlotAcquiredEvent) {}
