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
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// Transactions returns the specs of checkpoints and guards inside transactions of
// the caller's, which [Specs] has too, through the driver of that name.
func Transactions(driver string) func() {
	return func() {
		s := &subject{driver: driver}
		BeforeEach(func() {
			s.dsn = pgtest.Database()
			noLeaks()
		})
		s.transactionSpecs()
	}
}

func (s *subject) transactionSpecs() {
	Context("with a checkpoint", s.checkpointSpecs)
	Context("with a guard", s.guardSpecs)
	Context("under a stricter isolation level", s.isolationSpecs)
}

func (s *subject) checkpointSpecs() {
	It("commits the caller's rows and the state together, or neither", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
			tx := begin(ctx, db, nil)
			enter(ctx, tx)
			Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, []byte("1"))).To(Succeed())
			Expect(end(tx)).To(Succeed())
			Expect(entries(ctx, db)).To(Equal(1))
			Expect(read(ctx, a, token).State).To(Equal([]byte("1")))
		}
	})

	It("is one statement through another db of the same database, too", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		Expect(a.Checkpoint(ctx, token, []byte("prepared"))).To(Succeed())
		other := s.open(s.dsn)
		tx := begin(ctx, other, nil)
		enter(ctx, tx)
		Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, []byte("1"))).To(Succeed())
		Expect(tx.Commit()).To(Succeed())
		Expect(read(ctx, a, token).State).To(Equal([]byte("1")))
	})

	It("lets a zombie learn that it is one, and take its rows back", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		a := holder(b, "a", time.Minute)
		token := acquire(ctx, a, work)
		tx := begin(ctx, db, nil)
		enter(ctx, tx)
		takeOver(ctx, db, b)
		Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, []byte("1"))).To(MatchError(worklease.ErrFenced))
		Expect(tx.Rollback()).To(Succeed())
		Expect(entries(ctx, db)).To(BeZero())
	})

	It("goes back with a savepoint, and stays with what came before it", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		tx := begin(ctx, db, nil)
		in := postgres.WithTx(ctx, tx)
		enter(ctx, tx)
		Expect(a.Checkpoint(in, token, []byte("1"))).To(Succeed())
		expiry := expiryIn(ctx, tx)
		execute(ctx, tx, `SAVEPOINT second`)
		enter(ctx, tx)
		Expect(a.Checkpoint(in, token, []byte("2"))).To(Succeed())
		Expect(expiryIn(ctx, tx)).To(BeNumerically(">", expiry))
		execute(ctx, tx, `ROLLBACK TO second`)
		Expect(expiryIn(ctx, tx)).To(Equal(expiry))
		Expect(tx.Commit()).To(Succeed())
		Expect(entries(ctx, db)).To(Equal(1))
		Expect(read(ctx, a, token).State).To(Equal([]byte("1")))
	})

	It("goes on after a savepoint took back what failed", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		tx := begin(ctx, db, nil)
		execute(ctx, tx, `SAVEPOINT first`)
		_, err := tx.ExecContext(ctx, `SELECT 1 / 0`)
		Expect(err).To(HaveOccurred())
		in := postgres.WithTx(ctx, tx)
		err = a.Checkpoint(in, token, []byte("1"))
		expectNoVerdict(err)
		Expect(stateOf(err)).To(Equal("25P02"), "%v", err)
		execute(ctx, tx, `ROLLBACK TO first`)
		Expect(a.Checkpoint(in, token, []byte("1"))).To(Succeed())
		Expect(tx.Commit()).To(Succeed())
		Expect(read(ctx, a, token).State).To(Equal([]byte("1")))
	})

	It("extends the lease from the call, not from its beginning", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		tx := begin(ctx, db, nil)
		execute(ctx, tx, `SELECT pg_sleep(1)`)
		Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, nil)).To(Succeed())
		var since float64
		Expect(tx.QueryRowContext(ctx, `SELECT extract(epoch FROM expires_at - transaction_timestamp())::float8 FROM worklease_leases`).
			Scan(&since)).To(Succeed())
		Expect(since).To(BeNumerically(">=", time.Minute.Seconds()+1))
		Expect(tx.Rollback()).To(Succeed())
	})

	It("says so when it has ended", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		tx := begin(ctx, db, nil)
		Expect(tx.Rollback()).To(Succeed())
		Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, nil)).To(MatchError(sql.ErrTxDone))
		conn, err := db.Conn(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.Close()).To(Succeed())
		Expect(a.Checkpoint(postgres.WithConn(ctx, conn), token, nil)).To(MatchError(sql.ErrConnDone))
	})

	It("says so when there is none", limit, func(ctx SpecContext) {
		a := holder(on(s.ledger(ctx)), "a", time.Minute)
		token := acquire(ctx, a, work)
		for _, in := range []context.Context{postgres.WithTx(ctx, nil), postgres.WithConn(ctx, nil)} {
			err := a.Checkpoint(in, token, nil)
			expectNoVerdict(err)
			Expect(err).To(MatchError(ContainSubstring("nil")))
		}
	})

	It("moves no window until something outside of it does", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", time.Minute)
		token, renewCtx := renewing(ctx, a, work)
		before := window(renewCtx)
		tx := begin(ctx, db, nil)
		Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, nil)).To(Succeed())
		Expect(window(renewCtx)).To(Equal(before))
		Expect(tx.Commit()).To(Succeed())
		Expect(window(renewCtx)).To(Equal(before))
		Expect(a.Renew(ctx, token)).To(Succeed())
		Expect(window(renewCtx)).To(BeTemporally(">", before))
	})

	It("costs nothing where it is shorter than half the TTL", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		a := holder(on(db), "a", 2*ttl)
		token, renewCtx := renewing(ctx, a, work)
		tx := begin(ctx, db, nil)
		Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, []byte("1"))).To(Succeed())
		// The renewal is due, and waits.
		Eventually(waiting(ctx, db)).WithTimeout(ttl + margin).Should(BeNumerically(">=", 1))
		Expect(tx.Commit()).To(Succeed())
		expectRenewed(renewCtx, 2*ttl)
		Expect(renewCtx.Err()).NotTo(HaveOccurred())
		Expect(read(ctx, a, token).State).To(Equal([]byte("1")))
	})

	It("costs the lease at its window where it is longer, and keeps others out until it ends", limit, func(ctx SpecContext) {
		db := s.ledger(ctx)
		b := on(db)
		a := holder(b, "a", ttl)
		token, renewCtx := renewing(ctx, a, work)
		tx := begin(ctx, db, nil)
		enter(ctx, tx)
		Expect(a.Checkpoint(postgres.WithTx(ctx, tx), token, []byte("1"))).To(Succeed())
		expectWindowCloses(renewCtx)

		next := make(chan worklease.Checkpoint, 1)
		go func() {
			defer GinkgoRecover()
			next <- waitFor(ctx, holder(b, "b", time.Minute), work)
		}()
		Eventually(waitingFor(ctx, db, "-- acquire")).WithTimeout(ttl + margin).Should(BeNumerically(">=", 1))
		Consistently(next).WithTimeout(ttl / 4).ShouldNot(Receive())
		Expect(tx.Commit()).To(Succeed())
		// Whatever became of the lease, rows and state are one.
		var prior worklease.Checkpoint
		Eventually(next).WithTimeout(10 * time.Second).Should(Receive(&prior))
		Expect(prior).To(Equal(worklease.Checkpoint{State: []byte("1"), PrevExit: worklease.ExitExpired, PrevHolderID: "a"}))
		Expect(entries(ctx, db)).To(Equal(1))
	})

	DescribeTable("needs no second connection, whatever comes of it",
		func(ctx SpecContext, opts ...postgres.Option) {
			s.ledger(ctx)
			db := s.open(s.dsn)
			db.SetMaxOpenConns(1)
			outside := on(s.open(s.dsn))
			rec, err := outside.Acquire(ctx, work, "a", time.Minute)
			Expect(err).NotTo(HaveOccurred())
			stale := rec
			stale.HolderID = "b"
			for range 2 { // the first knows nothing of the driver, and has nothing prepared
				b := on(db, opts...)
				for range 2 {
					tx := begin(ctx, db, nil)
					in := postgres.WithTx(ctx, tx)
					Expect(b.Checkpoint(in, rec, nil, time.Minute)).To(Succeed())
					Expect(b.Checkpoint(in, stale, nil, time.Minute)).To(MatchError(backend.ErrFenced))
					Expect(b.Guard(ctx, tx, fence{rec})).To(Succeed())
					Expect(b.Guard(ctx, tx, fence{stale})).To(MatchError(backend.ErrFenced))
					Expect(tx.Commit()).To(Succeed())
					Expect(b.Renew(ctx, rec, time.Minute)).To(Succeed())
				}
			}
		},
		Entry("as it comes", limit),
		Entry("for a pooler", limit, postgres.WithTransactionPooler()),
	)
}

// fence is a record as a postgres.Fence.
type fence struct{ rec backend.LeaseRecord }

func (f fence) WorkID() string       { return f.rec.WorkID }
func (f fence) HolderID() string     { return f.rec.HolderID }
func (f fence) FencingToken() uint64 { return f.rec.FencingToken }

// ledger is [subject.database] with a table of the caller's own.
func (s *subject) ledger(ctx context.Context) *sql.DB {
	GinkgoHelper()
	db := s.database()
	run(ctx, db, `CREATE TABLE ledger (entry bigserial PRIMARY KEY)`)
	return db
}

// begin begins a transaction that the spec's end rolls back where it is open.
func begin(ctx context.Context, db *sql.DB, opts *sql.TxOptions) *sql.Tx {
	GinkgoHelper()
	tx, err := db.BeginTx(context.WithoutCancel(ctx), opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = tx.Rollback() })
	return tx
}

func execute(ctx context.Context, tx *sql.Tx, statement string, args ...any) {
	GinkgoHelper()
	_, err := tx.ExecContext(ctx, statement, args...)
	Expect(err).NotTo(HaveOccurred(), statement)
}

// enter makes an entry in the ledger.
func enter(ctx context.Context, tx *sql.Tx) {
	GinkgoHelper()
	execute(ctx, tx, `INSERT INTO ledger DEFAULT VALUES`)
}

// entries counts those that were committed.
func entries(ctx context.Context, db *sql.DB) (n int) {
	GinkgoHelper()
	Expect(db.QueryRowContext(ctx, `SELECT count(*) FROM ledger`).Scan(&n)).To(Succeed())
	return n
}

// expiryIn is the expiry as tx sees it, in microseconds.
func expiryIn(ctx context.Context, tx *sql.Tx) (at int64) {
	GinkgoHelper()
	Expect(tx.QueryRowContext(ctx, `SELECT (extract(epoch FROM expires_at) * 1000000)::bigint FROM worklease_leases`).Scan(&at)).To(Succeed())
	return at
}

// takeOver has the lease on work lapse and gives it to b.
func takeOver(ctx context.Context, db *sql.DB, b backend.Backend) backend.LeaseRecord {
	GinkgoHelper()
	run(ctx, db, `UPDATE worklease_leases SET expires_at = statement_timestamp() - interval '1 second'`)
	rec, err := b.Acquire(ctx, work, "b", time.Minute)
	Expect(err).NotTo(HaveOccurred())
	return rec
}

// waiting is how many sessions of this database wait for a lock.
func waiting(ctx context.Context, db *sql.DB) func() int { return waitingFor(ctx, db, "") }

// waitingFor is [waiting] for statements that hold a text.
func waitingFor(ctx context.Context, db *sql.DB, text string) func() int {
	return func() (n int) {
		GinkgoHelper()
		Expect(db.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0`, text).Scan(&n)).To(Succeed())
		return n
	}
}
