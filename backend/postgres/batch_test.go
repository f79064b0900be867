package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("A batch of renewals", func() {
	take := func(ctx context.Context, b backend.Backend, n int) []backend.LeaseRecord {
		GinkgoHelper()
		records := make([]backend.LeaseRecord, n)
		for i := range records {
			records[i] = acquire(ctx, b, fmt.Sprint("work-", i), "a")
		}
		return records
	}

	It("waits for no row that somebody has locked, and renews the others", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		records := take(ctx, b, 10)
		tx, err := db.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(ctx, `SELECT FROM worklease_leases WHERE work_id = 'work-3' FOR UPDATE`)
		Expect(err).NotTo(HaveOccurred())

		verdicts, err := b.RenewBatch(ctx, records, 2*ttl)
		Expect(err).NotTo(HaveOccurred())
		for i, verdict := range verdicts {
			if i == 3 {
				Expect(verdict).To(MatchError(ContainSubstring("locked")))
				Expect(verdict).NotTo(Or(MatchError(backend.ErrFenced), MatchError(backend.ErrLeaseExpired)))
			} else {
				Expect(verdict).NotTo(HaveOccurred())
			}
		}
		var renewed int
		Expect(db.QueryRowContext(ctx, `SELECT count(*) FROM worklease_leases WHERE expires_at > acquired_at + make_interval(secs => $1)`,
			(ttl + ttl/2).Seconds()).Scan(&renewed)).To(Succeed())
		Expect(renewed).To(Equal(9))
	}, SpecTimeout(bound))

	// planned returns how db would renew leases called work-0, work-1 ….
	planned := func(ctx context.Context, db *sql.DB, n int) string {
		GinkgoHelper()
		ids, holders, tokens := make([]string, n), make([]string, n), make([]int64, n)
		for i := range n {
			ids[i], holders[i], tokens[i] = fmt.Sprint("work-", i), "a", int64(i+1)
		}
		rows, err := db.QueryContext(ctx, "EXPLAIN (COSTS OFF) "+open().Text("renew_batch"),
			"renew_batch", pq.Array(ids), pq.Array(holders), pq.Array(tokens), 1)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = rows.Close() }()
		var plan strings.Builder
		for rows.Next() {
			var line string
			Expect(rows.Scan(&line)).To(Succeed())
			plan.WriteString(line + "\n")
		}
		Expect(rows.Err()).NotTo(HaveOccurred())
		return plan.String()
	}

	// Nothing waits here, so that the order cannot be seen from outside; but batches
	// that wait and lock the same rows in different orders deadlock.
	It("locks its rows in the order of their work IDs", func(ctx SpecContext) {
		sorting := ownSchema(true)
		for _, way := range []string{"enable_indexscan", "enable_bitmapscan", "enable_mergejoin"} {
			sorting = with(sorting, way, "off")
		}
		Expect(planned(ctx, pgtest.Open(sorting), 1)).To(MatchRegexp(`LockRows\n +-> +Sort\n +Sort Key: l\.work_id\n`))
	}, SpecTimeout(bound))

	It("compares no row with each other, though the planner knows of no live lease", func(ctx SpecContext) {
		own := pgtest.Open(ownSchema(true))
		exec(ctx, own, `INSERT INTO worklease_leases (work_id, holder_id, fencing_token, expires_at)
			SELECT 'work-' || n, 'a', n + 1, statement_timestamp() - interval '1 hour' FROM generate_series(0, 999) AS n`)
		exec(ctx, own, `VACUUM (ANALYZE) worklease_leases`)
		exec(ctx, own, `UPDATE worklease_leases SET expires_at = statement_timestamp() + interval '1 hour'`)
		exec(ctx, own, `UPDATE worklease_leases SET expires_at = statement_timestamp() + interval '2 hours'`)
		Expect(planned(ctx, own, 500)).NotTo(ContainSubstring("Join Filter"))
	}, SpecTimeout(bound))

	It("has no verdict on a lapsed lease that its holder is about to extend", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		records := take(ctx, b, 2)
		Expect(b.Renew(ctx, records[0], -time.Second)).To(Succeed())
		tx, err := db.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(ctx, `UPDATE worklease_leases SET expires_at = now() + interval '1 hour' WHERE work_id = 'work-0'`)
		Expect(err).NotTo(HaveOccurred())

		verdicts, err := b.RenewBatch(ctx, records, ttl)
		Expect(err).NotTo(HaveOccurred())
		Expect(verdicts[0]).To(MatchError(ContainSubstring("locked")))
		Expect(verdicts[0]).NotTo(MatchError(backend.ErrLeaseExpired))
		Expect(tx.Commit()).To(Succeed())
		Expect(b.RenewBatch(ctx, records, ttl)).To(HaveEach(BeNil()))
	}, SpecTimeout(bound))

	It("never moves an expiry back", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		records := take(ctx, b, 2)
		_, err := db.ExecContext(ctx, `UPDATE worklease_leases SET updated_at = updated_at + interval '1 hour', expires_at = expires_at + interval '1 hour'`)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.RenewBatch(ctx, records, ttl)).To(HaveEach(BeNil()))
		var ahead bool
		Expect(db.QueryRowContext(ctx, `SELECT bool_and(expires_at > now() + interval '59 minutes') FROM worklease_leases`).Scan(&ahead)).To(Succeed())
		Expect(ahead).To(BeTrue())
	}, SpecTimeout(bound))
})
