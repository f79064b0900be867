package serverfaults

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
)

func (s *subject) isolationSpecs() {
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		// snapshot begins a transaction that has read, so that it sees nothing later.
		snapshot := func(ctx context.Context, db *sql.DB) *sql.Tx {
			GinkgoHelper()
			tx := begin(ctx, db, &sql.TxOptions{Isolation: level})
			execute(ctx, tx, `SELECT count(*) FROM ledger`)
			return tx
		}
		// inside is what a holder does in a transaction.
		inside := map[string]func(context.Context, *postgres.Backend, *sql.Tx, backend.LeaseRecord) error{
			"Checkpoint": func(ctx context.Context, b *postgres.Backend, tx *sql.Tx, rec backend.LeaseRecord) error {
				return b.Checkpoint(postgres.WithTx(ctx, tx), rec, []byte("inside"), time.Minute)
			},
			"Guard": func(ctx context.Context, b *postgres.Backend, tx *sql.Tx, rec backend.LeaseRecord) error {
				return b.Guard(ctx, tx, fence{rec})
			},
		}
		entry := func(name string) TableEntry { return Entry(fmt.Sprintf("%s, %v", name, level), limit, name) }

		DescribeTable("works", func(ctx SpecContext, name string) {
			db := s.ledger(ctx)
			b := on(db)
			rec := started(ctx, b)
			tx := snapshot(ctx, db)
			Expect(inside[name](ctx, b, tx, rec)).To(Succeed())
			Expect(tx.Commit()).To(Succeed())
		}, entry("Checkpoint"), entry("Guard"))

		DescribeTable("says 40001 where the lease has changed since it began, and nothing moves", func(ctx SpecContext, name string) {
			db := s.ledger(ctx)
			b := on(db)
			rec := started(ctx, b)
			tx := snapshot(ctx, db)
			Expect(b.Renew(ctx, rec, time.Hour)).To(Succeed())
			err := inside[name](ctx, b, tx, rec)
			expectNoVerdict(err)
			Expect(stateOf(err)).To(Equal("40001"), "%v", err)
			Expect(b.Transient(err)).To(BeTrue())
			Expect(tx.Rollback()).To(Succeed())
			cp, err := b.ReadCheckpoint(ctx, rec)
			Expect(err).NotTo(HaveOccurred())
			Expect(cp.State).To(Equal([]byte("before")))
		}, entry("Checkpoint"), entry("Guard"))

		DescribeTable("says 40001 or fenced where the lease was taken over since", func(ctx SpecContext, name string) {
			db := s.ledger(ctx)
			b := on(db)
			rec := started(ctx, b)
			tx := snapshot(ctx, db)
			takeOver(ctx, db, b)
			err := inside[name](ctx, b, tx, rec)
			Expect(stateOf(err)).To(Equal("40001"), "%v", err)

			Expect(inside[name](ctx, b, snapshot(ctx, db), rec)).To(MatchError(worklease.ErrFenced))
		}, entry("Checkpoint"), entry("Guard"))

		DescribeTable("gives no verdict on a lease that was acquired since", func(ctx SpecContext, name string) {
			db := s.ledger(ctx)
			b := on(db)
			for range 2 { // once no row is there, once an older lease
				tx := snapshot(ctx, db)
				rec := started(ctx, b)
				err := inside[name](ctx, b, tx, rec)
				Expect(err).To(HaveOccurred())
				expectNoVerdict(err)
				Expect(b.Transient(err)).To(BeTrue(), "%v", err)
				Expect(tx.Rollback()).To(Succeed())
				Expect(b.Release(ctx, rec, worklease.ExitFinished)).To(Succeed())
			}
		}, entry("Checkpoint"), entry("Guard"))

		DescribeTable("knows a lease that was left before it began", func(ctx SpecContext, name string) {
			db := s.ledger(ctx)
			b := on(db)
			rec := started(ctx, b)
			Expect(b.Release(ctx, rec, worklease.ExitFinished)).To(Succeed())
			Expect(inside[name](ctx, b, snapshot(ctx, db), rec)).To(MatchError(worklease.ErrLeaseExpired))
		}, entry("Checkpoint"), entry("Guard"))
	}

	It("does not take a lease for lapsed that was renewed since it began", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		rec, err := b.Acquire(ctx, work, "a", ttl)
		Expect(err).NotTo(HaveOccurred())
		tx := begin(ctx, db, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		execute(ctx, tx, `SELECT count(*) FROM ledger`)
		Expect(b.Renew(ctx, rec, time.Hour)).To(Succeed())
		Eventually(func() (over bool) { // in the snapshot
			Expect(tx.QueryRowContext(ctx, `SELECT expires_at <= clock_timestamp() FROM worklease_leases`).Scan(&over)).To(Succeed())
			return over
		}).WithTimeout(ttl + margin).Should(BeTrue())
		err = b.Guard(ctx, tx, fence{rec})
		expectNoVerdict(err)
		Expect(stateOf(err)).To(Equal("40001"), "%v", err)
	})
}

// started acquires the lease on work and stores a state.
func started(ctx context.Context, b backend.Backend) backend.LeaseRecord {
	GinkgoHelper()
	rec, err := b.Acquire(ctx, work, "a", time.Minute)
	Expect(err).NotTo(HaveOccurred())
	Expect(b.Checkpoint(ctx, rec, []byte("before"), time.Minute)).To(Succeed())
	return rec
}
