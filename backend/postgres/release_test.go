package postgres_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("A Release", func() {
	It("frees the lease for a statement too that the server received before it and reads after it", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		gate, err := db.Conn(ctx)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = gate.Close() }()
		_, err = gate.ExecContext(ctx, `SELECT pg_advisory_lock(42)`)
		Expect(err).NotTo(HaveOccurred())

		// Two statements in one message: both have the time of its receipt, and the
		// second sees what is there when the first has got its lock.
		live := make(chan int, 1)
		go func() {
			defer GinkgoRecover()
			rows, err := db.QueryContext(ctx, `
				SELECT pg_advisory_lock(42);
				SELECT count(*) FROM worklease_leases WHERE expires_at > statement_timestamp()`)
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = rows.Close() }()
			for rows.Next() { // lib/pq comes to the second answer at the end of the first
			}
			Expect(rows.NextResultSet()).To(BeTrue())
			Expect(rows.Next()).To(BeTrue())
			var n int
			Expect(rows.Scan(&n)).To(Succeed())
			live <- n
		}()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 1))
		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
		_, err = gate.ExecContext(ctx, `SELECT pg_advisory_unlock(42)`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(live).WithTimeout(10 * time.Second).Should(Receive(BeZero()))
	}, SpecTimeout(bound))
})
