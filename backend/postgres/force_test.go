package postgres_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("ForceRelease", func() {
	It("fences a checkpoint that was waiting for the row", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		unlock := lockRow(ctx, db, work)
		forced, stored := make(chan error, 1), make(chan error, 1)
		go func() { forced <- b.ForceRelease(ctx, work, rec.FencingToken) }()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 1))
		go func() { stored <- b.Checkpoint(ctx, rec, []byte("late"), ttl) }()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 2))
		unlock()

		Eventually(forced).WithTimeout(10 * time.Second).Should(Receive(Succeed()))
		Eventually(stored).WithTimeout(10 * time.Second).Should(Receive(MatchError(backend.ErrFenced)))
		Expect(read(ctx, b, acquire(ctx, b, work, "b"))).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
	}, SpecTimeout(bound))

	It("raises the token also where the sequence was set back", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		exec(ctx, db, `SELECT setval('worklease_fencing_seq', 1000)`)
		rec := acquire(ctx, b, work, "a")
		exec(ctx, db, `SELECT setval('worklease_fencing_seq', 1)`)
		Expect(b.ForceRelease(ctx, work, rec.FencingToken)).To(Succeed())
		Expect(only(ctx, b).FencingToken).To(Equal(rec.FencingToken + 1))
		Expect(b.Checkpoint(ctx, rec, nil, ttl)).To(MatchError(backend.ErrFenced))
	}, SpecTimeout(bound))

	It("of a lease that has lapsed leaves it free for an Acquire that began before it", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		rec, err := b.Acquire(ctx, work, "a", -ttl)
		Expect(err).NotTo(HaveOccurred())
		tx, err := db.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(ctx, `SELECT FROM worklease_leases FOR UPDATE`)
		Expect(err).NotTo(HaveOccurred())

		waited := make(chan error, 1)
		go func() {
			_, err := b.Acquire(ctx, work, "b", ttl)
			waited <- err
		}()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 1))
		_, err = tx.ExecContext(ctx, `SELECT pg_sleep(1.5)`) // longer than what a release dates back
		Expect(err).NotTo(HaveOccurred())
		_, err = tx.ExecContext(ctx, b.Text("force"), "force", work, int64(rec.FencingToken))
		Expect(err).NotTo(HaveOccurred())
		Expect(tx.Commit()).To(Succeed())
		Eventually(waited).WithTimeout(10 * time.Second).Should(Receive(Succeed()))
	}, SpecTimeout(bound))
})
