package postgres_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("A call that waited for its row", func() {
	It("draws its token after the lock, so that no token of any work is issued twice", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		first, err := b.Acquire(ctx, work, "a", -ttl)
		Expect(err).NotTo(HaveOccurred())

		// Another takes the lease, and lets it lapse, while this attempt waits.
		tx, err := db.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = tx.Rollback() })
		var between uint64
		Expect(tx.QueryRowContext(ctx, `UPDATE worklease_leases SET holder_id = 'b' RETURNING fencing_token`).Scan(&between)).To(Succeed())
		Expect(between).To(Equal(first.FencingToken))
		waited := make(chan backend.LeaseRecord, 1)
		go func() {
			defer GinkgoRecover()
			waited <- acquire(ctx, b, work, "c")
		}()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 1))
		Expect(tx.QueryRowContext(ctx, `UPDATE worklease_leases SET fencing_token = nextval('worklease_fencing_seq') RETURNING fencing_token`).Scan(&between)).To(Succeed())
		Expect(tx.Commit()).To(Succeed())

		var rec backend.LeaseRecord
		Eventually(waited).WithTimeout(10 * time.Second).Should(Receive(&rec))
		Expect(rec.FencingToken).To(BeNumerically(">", between))
		Expect(acquire(ctx, b, "other", "c").FencingToken).To(BeNumerically(">", rec.FencingToken))
	}, SpecTimeout(bound))

	It("has a token above that of a lease which came and went while it was being inserted", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		tx, err := db.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = tx.Rollback() })
		// The insertion for one holder waits for tx, its token drawn.
		for _, statement := range []string{
			`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF NEW.holder_id = 'slow' THEN LOCK gate IN SHARE MODE; END IF;
				RETURN NEW;
			END $$`,
			`CREATE TABLE gate ()`,
			`CREATE TRIGGER wait BEFORE INSERT ON worklease_leases FOR EACH ROW EXECUTE FUNCTION wait()`,
		} {
			_, err := db.ExecContext(ctx, statement)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err = tx.ExecContext(ctx, `LOCK gate`)
		Expect(err).NotTo(HaveOccurred())
		slow := make(chan backend.LeaseRecord, 1)
		go func() {
			defer GinkgoRecover()
			slow <- acquire(ctx, b, work, "slow")
		}()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 1))

		var gone backend.LeaseRecord // none, where the other has to wait
		other := make(chan error, 1)
		go func() {
			var err error
			if gone, err = b.Acquire(ctx, work, "quick", ttl); err == nil {
				err = b.Forget(ctx, gone)
			}
			other <- err
		}()
		Eventually(func() bool { return len(other) == 1 || waiting(ctx, db)() == 2 }).WithTimeout(10 * time.Second).Should(BeTrue())
		Expect(tx.Commit()).To(Succeed())

		var rec backend.LeaseRecord
		Eventually(slow).WithTimeout(10 * time.Second).Should(Receive(&rec))
		Eventually(other).WithTimeout(10 * time.Second).Should(Receive(Or(Succeed(), MatchError(backend.ErrLeaseHeld))))
		Expect(rec.FencingToken).To(BeNumerically(">", gone.FencingToken))
	}, SpecTimeout(bound))

	It("11b: does not renew a lease that was released meanwhile, however long it waited", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		tx, err := db.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(ctx, `SELECT FROM worklease_leases FOR UPDATE`)
		Expect(err).NotTo(HaveOccurred())

		waited := make(chan error, 1)
		go func() { waited <- b.Renew(ctx, rec, ttl) }()
		Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 1))
		// The renewal began before the expiry that a release leaves, which lies a
		// second back.
		_, err = tx.ExecContext(ctx, `SELECT pg_sleep(1.5)`)
		Expect(err).NotTo(HaveOccurred())
		_, err = tx.ExecContext(ctx, `UPDATE worklease_leases
			SET exit_mode = 'finished', expires_at = statement_timestamp() - interval '1 second'`)
		Expect(err).NotTo(HaveOccurred())
		Expect(tx.Commit()).To(Succeed())

		var answer error
		Eventually(waited).WithTimeout(10 * time.Second).Should(Receive(&answer))
		Expect(answer).To(MatchError(backend.ErrLeaseExpired))
		Expect(read(ctx, b, acquire(ctx, b, work, "b")).PrevExit).To(Equal(backend.ExitFinished))
	}, SpecTimeout(bound))
})
