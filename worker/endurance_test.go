//go:build !race

package worker_test

import (
	"context"
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/worker"
)

var _ = Describe("A parent that lives for long", func() {
	// A context that was derived from a parent and never cancelled stays in it.
	It("keeps nothing of 100,000 runs", func(ctx SpecContext) {
		const each, allowed = 25_000, 1 << 20
		ids := []string{"one", "two", "three", "four"}
		parent, cancel := context.WithCancel(ctx)
		defer cancel()
		r := newRunner(worker.RunnerConfig{Lease: newLease(memory.New(), runs), WorkFn: returns([]byte("state"), nil)})
		repeat := func(n int) {
			var wg sync.WaitGroup
			for _, id := range ids {
				wg.Go(func() {
					defer GinkgoRecover()
					for range n {
						if err := r.Run(parent, id); err != nil {
							Fail(err.Error())
						}
					}
				})
			}
			wg.Wait()
		}
		repeat(250) // What is allocated once is allocated then.
		goroutines, heap := runtime.NumGoroutine(), heapInUse()

		repeat(each)
		Expect(heapInUse()).To(BeNumerically("<=", heap+allowed))
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", goroutines))
	}, SpecTimeout(10*time.Minute))
})

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
