package postgres_test

import (
	"context"
	"database/sql"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// fill adds n rows that lapsed long ago, left in mode; an empty one is none.
func fill(ctx context.Context, db *sql.DB, prefix, mode string, n int) {
	GinkgoHelper()
	exec(ctx, db, `
		INSERT INTO worklease_leases (work_id, holder_id, expires_at, exit_mode, updated_at)
		SELECT $1 || n, 'z', now() - interval '2 hours', nullif($2, ''), now() - interval '2 hours'
		FROM generate_series(1, $3::int) AS n`, prefix, mode, n)
}

var _ = Describe("Sweep of many rows", func() {
	const rows, batches = 5000, 5000/postgres.SweepBatch + 1
	old := backend.SweepOptions{Retention: time.Hour}

	It("29a: deletes in batches, and only what it may", func(ctx SpecContext) {
		l, over := openLine(ownSchema(true))
		b := on(over)
		fill(ctx, over, "retired-", "retired", rows)
		fill(ctx, over, "finished-", "finished", 10)
		fill(ctx, over, "abandoned-", "abandoned", 10)
		fill(ctx, over, "expired-", "", 10)
		acquire(ctx, b, "held", "a")
		Expect(b.Release(ctx, acquire(ctx, b, "recent", "a"), backend.ExitRetired)).To(Succeed())

		l.watch(nil)
		Expect(b.Sweep(ctx, old)).To(BeNumerically("==", rows))
		Expect(l.count(bind, "sweep")).To(Equal(batches))
		Expect(scalar[int](ctx, over, `SELECT count(*) FROM worklease_leases`)).To(Equal(32))

		Expect(b.Sweep(ctx, backend.SweepOptions{Retention: time.Hour, IncludeExpired: true})).To(BeNumerically("==", 10))
		Expect(scalar[int](ctx, over, `SELECT count(*) FROM worklease_leases`)).To(Equal(22))
	}, SpecTimeout(bound))

	It("29b: that is cancelled says how many there were so far, and the next one goes on", func(ctx SpecContext) {
		l, over := openLine(ownSchema(true))
		b := on(over)
		fill(ctx, over, "retired-", "retired", rows)
		Expect(b.Sweep(ctx, backend.SweepOptions{Retention: 3 * time.Hour})).To(BeZero()) // prepares

		cancelled, cancel := context.WithCancel(ctx)
		defer cancel()
		l.watch(func(n int, message []byte) {
			if n == 3 && is(message, bind, "sweep") {
				cancel()
			}
		})
		n, err := b.Sweep(cancelled, old)
		Expect(err).To(MatchError(context.Canceled))
		l.watch(nil)
		// The third was sent; what the server made of it the count may not say.
		Expect(n).To(BeElementOf(int64(2*postgres.SweepBatch), int64(3*postgres.SweepBatch)))
		left := scalar[int64](ctx, over, `SELECT count(*) FROM worklease_leases`)
		Expect(left).To(BeElementOf(rows-n, rows-n-postgres.SweepBatch))
		Expect(b.Sweep(ctx, old)).To(Equal(left))
	}, SpecTimeout(bound))

	It("leaves a row that somebody has locked to the next one", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		fill(ctx, db, "retired-", "retired", 10)
		unlock := lockRow(ctx, db, "retired-7")
		Expect(b.Sweep(ctx, old)).To(BeNumerically("==", 9))
		unlock()
		Expect(b.Sweep(ctx, old)).To(BeNumerically("==", 1))
	}, SpecTimeout(bound))
})
