package serverfaults

import (
	"context"
	"database/sql"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
)

func (s *subject) guardSpecs() {
	It("keeps the lease from being taken over before it commits, though it has lapsed", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		token := acquire(ctx, holder(b, "a", ttl), work)
		tx := begin(ctx, db, nil)
		enter(ctx, tx)
		Expect(b.Guard(ctx, tx, token)).To(Succeed())
		lapsed(ctx, db)

		type answer struct {
			rec     backend.LeaseRecord
			entries int // that the successor sees
		}
		next := make(chan answer, 1)
		go func() {
			defer GinkgoRecover()
			rec, err := b.Acquire(ctx, work, "b", time.Minute)
			Expect(err).NotTo(HaveOccurred())
			next <- answer{rec, entries(ctx, db)}
		}()
		Eventually(func() bool { return waiting(ctx, db)() == 1 || len(next) == 1 }).WithTimeout(10 * time.Second).Should(BeTrue())
		Expect(next).To(BeEmpty(), "it was taken over")
		Expect(tx.Commit()).To(Succeed())
		var got answer
		Eventually(next).WithTimeout(10 * time.Second).Should(Receive(&got))
		Expect(got.rec.FencingToken).To(BeNumerically(">", token.FencingToken()))
		Expect(got.entries).To(Equal(1))
	})

	It("is fenced by a takeover that commits while it waits for the row", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		token := acquire(ctx, holder(b, "a", time.Minute), work)
		takeover := begin(ctx, db, nil)
		execute(ctx, takeover, `UPDATE worklease_leases SET holder_id = 'b', fencing_token = nextval('worklease_fencing_seq')`)
		tx := begin(ctx, db, nil)
		answer := make(chan error, 1)
		go func() { answer <- b.Guard(ctx, tx, token) }()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(Equal(1))
		Expect(takeover.Commit()).To(Succeed())
		Eventually(answer).WithTimeout(10 * time.Second).Should(Receive(MatchError(worklease.ErrFenced)))
	})

	It("waits for the holder's own renewal, which waits for it", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		a := holder(b, "a", time.Minute)
		token := acquire(ctx, a, work)
		tx := begin(ctx, db, nil)
		Expect(b.Guard(ctx, tx, token)).To(Succeed())
		renewed := make(chan error, 1)
		go func() { renewed <- a.Renew(ctx, token) }()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(Equal(1))
		Expect(tx.Commit()).To(Succeed())
		Eventually(renewed).WithTimeout(10 * time.Second).Should(Receive(Succeed()))
	})

	DescribeTable("fails unless the token is current",
		func(ctx SpecContext, want error, arrange func(context.Context, *sql.DB, backend.Backend, backend.LeaseRecord) backend.LeaseRecord) {
			db := s.ledger(ctx)
			b := on(db)
			rec, err := b.Acquire(ctx, work, "a", time.Minute)
			Expect(err).NotTo(HaveOccurred())
			used := arrange(ctx, db, b, rec)
			tx := begin(ctx, db, nil)
			Expect(b.Guard(ctx, tx, fence{used})).To(MatchError(want))
			Expect(tx.Commit()).To(Succeed(), "a verdict does not end the transaction")
		},
		Entry("of a holder that was superseded", limit, worklease.ErrFenced,
			func(ctx context.Context, db *sql.DB, b backend.Backend, rec backend.LeaseRecord) backend.LeaseRecord {
				takeOver(ctx, db, b)
				return rec
			}),
		Entry("of another holder", limit, worklease.ErrFenced,
			func(_ context.Context, _ *sql.DB, _ backend.Backend, rec backend.LeaseRecord) backend.LeaseRecord {
				rec.HolderID = "b"
				return rec
			}),
		Entry("that no store can hold", limit, worklease.ErrFenced,
			func(_ context.Context, _ *sql.DB, _ backend.Backend, rec backend.LeaseRecord) backend.LeaseRecord {
				rec.FencingToken = 1 << 63
				return rec
			}),
		Entry("of a row that is gone", limit, worklease.ErrFenced,
			func(ctx context.Context, _ *sql.DB, b backend.Backend, rec backend.LeaseRecord) backend.LeaseRecord {
				Expect(b.Forget(ctx, rec)).To(Succeed())
				return rec
			}),
		Entry("of a lease that lapsed", limit, worklease.ErrLeaseExpired,
			func(ctx context.Context, _ *sql.DB, b backend.Backend, rec backend.LeaseRecord) backend.LeaseRecord {
				Expect(b.Renew(ctx, rec, 0)).To(Succeed())
				return rec
			}),
		Entry("of a lease that was left", limit, worklease.ErrLeaseExpired,
			func(ctx context.Context, _ *sql.DB, b backend.Backend, rec backend.LeaseRecord) backend.LeaseRecord {
				Expect(b.Release(ctx, rec, worklease.ExitFinished)).To(Succeed())
				return rec
			}),
	)

	It("moves no expiry", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		token := acquire(ctx, holder(b, "a", time.Minute), work)
		tx := begin(ctx, db, nil)
		before := expiryIn(ctx, tx)
		Expect(b.Guard(ctx, tx, token)).To(Succeed())
		Expect(expiryIn(ctx, tx)).To(Equal(before))
	})

	It("takes the transaction of the context where it is given none", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		token := acquire(ctx, holder(b, "a", time.Minute), work)
		conn, err := db.Conn(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		_, err = conn.ExecContext(ctx, `BEGIN`)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Guard(postgres.WithConn(ctx, conn), nil, token)).To(Succeed())
		_, err = begin(ctx, db, nil).ExecContext(ctx, `SELECT FROM worklease_leases FOR UPDATE NOWAIT`)
		Expect(stateOf(err)).To(Equal("55P03"), "%v", err)
		_, err = conn.ExecContext(ctx, `ROLLBACK`)
		Expect(err).NotTo(HaveOccurred())
	})

	It("refuses what it cannot use, naming it", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		token := acquire(ctx, holder(b, "a", time.Minute), work)
		tx := begin(ctx, db, nil)
		Expect(b.Guard(ctx, tx, nil)).To(MatchError("postgres: Guard: fence is nil"))
		Expect(b.Guard(ctx, nil, token)).To(MatchError(
			`postgres: Guard: workID="work" holderID="a": tx is nil, and the context has no transaction`))
		Expect(b.Guard(ctx, tx, worklease.Token{})).To(MatchError(worklease.ErrFenced))
		done, cancel := context.WithCancel(ctx)
		cancel()
		Expect(b.Guard(done, tx, token)).To(MatchError(context.Canceled))
		Expect(tx.Commit()).To(Succeed())
		Expect(b.Guard(ctx, tx, token)).To(MatchError(sql.ErrTxDone))
	})
}

// lapsed waits until the lease on work has lapsed by itself.
func lapsed(ctx context.Context, db *sql.DB) {
	GinkgoHelper()
	Eventually(func() (over bool) {
		Expect(db.QueryRowContext(ctx, `SELECT expires_at <= clock_timestamp() FROM worklease_leases`).Scan(&over)).To(Succeed())
		return over
	}).WithTimeout(ttl + margin).Should(BeTrue())
}
