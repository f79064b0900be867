//go:build long

package postgres_test

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("List of a million rows", Label("long"), func() {
	It("streams them in less than 32 MiB of heap", func(ctx SpecContext) {
		const rows, most = 1_000_000, 32 << 20
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		fill(ctx, db, "a-work-id-of-ordinary-length:", "finished", rows)
		exec(ctx, db, `ANALYZE worklease_leases`)
		// The suite's own heap is counted too; it must not weigh double.
		DeferCleanup(debug.SetGCPercent, debug.SetGCPercent(25))
		runtime.GC()

		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		n, peak, began := 0, uint64(0), time.Now()
		for _, err := range b.List(ctx, backend.ListOptions{}) {
			if err != nil {
				Fail(err.Error())
			}
			if n++; n%100 == 0 {
				metrics.Read(heap)
				peak = max(peak, heap[0].Value.Uint64())
			}
		}
		AddReportEntry("peak heap in KiB", peak>>10)
		AddReportEntry("time", time.Since(began))
		Expect(n).To(Equal(rows))
		Expect(peak).To(BeNumerically("<", most))
	}, SpecTimeout(5*time.Minute))
})
