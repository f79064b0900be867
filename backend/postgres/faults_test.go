package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// exec runs a statement of the spec's own.
func exec(ctx context.Context, db *sql.DB, statement string, args ...any) {
	GinkgoHelper()
	_, err := db.ExecContext(ctx, statement, args...)
	Expect(err).NotTo(HaveOccurred())
}

// scalar returns the only value of a query.
func scalar[T any](ctx context.Context, db *sql.DB, query string, args ...any) (v T) {
	GinkgoHelper()
	Expect(db.QueryRowContext(ctx, query, args...).Scan(&v)).To(Succeed())
	return v
}

// serverNow is the server's time in microseconds.
func serverNow(ctx context.Context, db *sql.DB) int64 {
	GinkgoHelper()
	return scalar[int64](ctx, db, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`)
}

// lockRow locks the row of work as somebody's open transaction does, until unlock.
func lockRow(ctx context.Context, db *sql.DB, work string) (unlock func()) {
	GinkgoHelper()
	tx, err := db.BeginTx(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	_, err = tx.ExecContext(ctx, `SELECT FROM worklease_leases WHERE work_id = $1 FOR UPDATE`, work)
	Expect(err).NotTo(HaveOccurred())
	unlock = sync.OnceFunc(func() { _ = tx.Rollback() })
	DeferCleanup(unlock)
	return unlock
}

// waiting is how many sessions of this database wait for a lock.
func waiting(ctx context.Context, db *sql.DB) func() int64 {
	return func() int64 {
		return scalar[int64](ctx, db, `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	}
}

// saysState holds that an error carries a SQLSTATE, which errors.As can reach.
func saysState(state string) types.GomegaMatcher {
	return WithTransform(func(err error) string {
		var e interface{ SQLState() string }
		if !errors.As(err, &e) {
			return ""
		}
		return e.SQLState()
	}, Equal(state))
}

var _ = Describe("Renewals behind a locked row", func() {
	It("6d: leave the expiry of the newest, in whatever order they are executed", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		db.SetMaxIdleConns(20)
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		var warm sync.WaitGroup // so that the calls differ by their start alone
		for range 10 {
			warm.Go(func() { _ = b.Renew(ctx, rec, ttl) })
		}
		warm.Wait()

		for range 10 {
			unlock := lockRow(ctx, db, work)
			var calls sync.WaitGroup
			for range 8 {
				calls.Go(func() {
					defer GinkgoRecover()
					Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
				})
				<-time.After(3 * time.Millisecond)
			}
			newest := serverNow(ctx, db)
			calls.Go(func() {
				defer GinkgoRecover()
				Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
			})
			Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 9))
			unlock()
			calls.Wait()

			expiry := scalar[int64](ctx, db, `SELECT (extract(epoch FROM expires_at) * 1000000)::bigint FROM worklease_leases`)
			Expect(expiry).To(BeNumerically(">=", newest+ttl.Microseconds()))
		}
	}, SpecTimeout(bound))
})

// ending is a context that ends with err when done is closed.
type ending struct {
	context.Context
	done chan struct{}
	err  error
}

func (e ending) Done() <-chan struct{} { return e.done }

func (e ending) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return e.Context.Err()
	}
}

var _ = Describe("A deadline", func() {
	It("7b: in the middle of a query is one, whatever the driver calls it", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
		lockRow(ctx, db, work)
		for name, call := range map[string]func(context.Context) error{
			"Renew":      func(ctx context.Context) error { return b.Renew(ctx, rec, ttl) },
			"Checkpoint": func(ctx context.Context) error { return b.Checkpoint(ctx, rec, nil, ttl) },
			"Release":    func(ctx context.Context) error { return b.Release(ctx, rec, backend.ExitFinished) },
			"Forget":     func(ctx context.Context) error { return b.Forget(ctx, rec) },
			"Restore":    func(ctx context.Context) error { return b.Restore(ctx, rec) },
		} {
			for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
				// Not before the server executes the statement: until then it
				// ignores a cancellation, of which lib/pq sends only one.
				Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeZero())
				ends := ending{Context: ctx, done: make(chan struct{}), err: end}
				answer := make(chan error, 1)
				go func() { answer <- call(ends) }()
				Eventually(waiting(ctx, db)).WithTimeout(10 * time.Second).Should(BeNumerically("==", 1))
				close(ends.done)
				var err error
				Eventually(answer).WithTimeout(10 * time.Second).Should(Receive(&err))
				Expect(err).To(MatchError(end), name)
			}
		}
	}, SpecTimeout(bound))

	It("7b: of the server's own is none of ours, and its SQLSTATE can be reached", func(ctx SpecContext) {
		own := ownSchema(true)
		db, impatient := pgtest.Open(own), pgtest.Open(with(own, "statement_timeout", "50"))
		rec := acquire(ctx, on(db), work, "a")
		lockRow(ctx, db, work)

		b := on(impatient)
		err := b.Renew(ctx, rec, ttl)
		expectNoVerdict(err)
		Expect(err).To(saysState("57014"))
		Expect(err).NotTo(MatchError(context.DeadlineExceeded))
		Expect(err).NotTo(MatchError(context.Canceled))
		Expect(b.Transient(err)).To(BeTrue())
	}, SpecTimeout(bound))

	It("7c: of one call never ends another on the same connection", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		db.SetMaxOpenConns(1)
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		for n := range 500 {
			soon, cancel := context.WithTimeout(ctx, time.Duration(n%50)*20*time.Microsecond)
			if err := b.Renew(soon, rec, ttl); err != nil {
				Expect(err).To(MatchError(context.DeadlineExceeded))
			}
			cancel()
			Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
		}
	}, SpecTimeout(bound))
})

var _ = Describe("Acquisitions that their callers give up", func() {
	It("5a: leave nothing behind, and never a token with an error", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		db.SetMaxOpenConns(20)
		db.SetMaxIdleConns(20)
		b := on(db)
		// Nothing lapses while this spec runs.
		a, err := worklease.New(b, worklease.Config{TTL: time.Hour, HolderID: "a"})
		Expect(err).NotTo(HaveOccurred())

		const tries, retired = 1500, 300
		id := func(n int) string { return "work-" + strconv.Itoa(n) }
		for n := range retired {
			Expect(b.Release(ctx, acquire(ctx, b, id(n), "z"), backend.ExitRetired)).To(Succeed())
		}
		var next, given, refused atomic.Int64
		var tryers sync.WaitGroup
		for range 8 {
			tryers.Go(func() {
				defer GinkgoRecover()
				for n := int(next.Add(1)) - 1; n < tries; n = int(next.Add(1)) - 1 {
					soon, cancel := context.WithTimeout(ctx, 200*time.Microsecond+rand.N(3*time.Millisecond))
					token, err := a.Acquire(soon, id(n))
					cancel()
					if err != nil {
						Expect(token).To(Equal(worklease.Token{}))
						Expect(err).To(MatchError(context.DeadlineExceeded))
						refused.Add(1)
						continue
					}
					given.Add(1)
					if n < retired {
						Expect(a.Release(ctx, token, worklease.ExitRetired)).To(Succeed())
					} else {
						Expect(a.Forget(ctx, token)).To(Succeed())
					}
				}
			})
		}
		tryers.Wait()
		Expect(refused.Load()).To(BeNumerically(">", 100), "deadlines that were missed")
		GinkgoWriter.Printf("%d tokens, %d refusals\n", given.Load(), refused.Load())

		next.Store(0)
		var takers sync.WaitGroup
		for range 8 {
			takers.Go(func() {
				defer GinkgoRecover()
				for n := int(next.Add(1)) - 1; n < tries; n = int(next.Add(1)) - 1 {
					var rec backend.LeaseRecord
					Eventually(func() (err error) {
						rec, err = b.Acquire(ctx, id(n), "b", ttl)
						return err
					}).WithTimeout(10 * time.Second).Should(Succeed())
					if n < retired {
						Expect(read(ctx, b, rec).PrevExit).To(Equal(backend.ExitRetired))
					} else {
						Expect(read(ctx, b, rec)).To(Equal(backend.Checkpoint{}))
					}
				}
			})
		}
		takers.Wait()
	}, SpecTimeout(5*time.Minute))
})

var _ = Describe("An expiry that somebody moved into the past", func() {
	It("4c: ends the lease at once, without backoff, and nothing can be declared", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		a, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: "a"})
		Expect(err).NotTo(HaveOccurred())
		token, err := a.Acquire(ctx, work)
		Expect(err).NotTo(HaveOccurred())
		exec(ctx, db, `UPDATE worklease_leases SET expires_at = now() - interval '1 hour'`)

		Expect(a.Renew(ctx, token)).To(MatchError(worklease.ErrLeaseExpired))
		run, cancel := context.WithCancel(ctx)
		defer cancel()
		renewCtx, stop := a.StartRenewal(run, token, worklease.WithRenewalInterval(50*time.Millisecond))
		defer stop()
		Eventually(renewCtx.Done()).WithTimeout(5 * time.Second).Should(BeClosed())
		Expect(context.Cause(renewCtx)).To(MatchError(worklease.ErrLeaseWindowExhausted))
		Expect(context.Cause(renewCtx)).To(MatchError(worklease.ErrLeaseExpired))
		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(MatchError(worklease.ErrLeaseExpired))
		Expect(read(ctx, b, acquire(ctx, b, work, "b"))).To(Equal(backend.Checkpoint{
			PrevExit: backend.ExitExpired, PrevHolderID: "a",
		}))
	}, SpecTimeout(bound))
})

var _ = Describe("The sequence", func() {
	It("24a: set back makes no token fall", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		exec(ctx, db, `SELECT setval('worklease_fencing_seq', 1000, false)`)
		rec := acquire(ctx, b, work, "a")
		Expect(rec.FencingToken).To(BeNumerically(">=", 1000))
		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())

		exec(ctx, db, `SELECT setval('worklease_fencing_seq', 1)`)
		last := rec.FencingToken
		for range 3 {
			rec, err := b.Acquire(ctx, work, "b", -ttl)
			Expect(err).NotTo(HaveOccurred())
			Expect(rec.FencingToken).To(BeNumerically(">", last))
			last = rec.FencingToken
		}
	}, SpecTimeout(bound))

	It("24b: cached by each session makes no token of a lease fall", func(ctx SpecContext) {
		own := ownSchema(true)
		one, two := pgtest.Open(own), pgtest.Open(own)
		exec(ctx, one, `ALTER SEQUENCE worklease_fencing_seq CACHE 20`)
		one.SetMaxOpenConns(1)
		two.SetMaxOpenConns(1)
		first, second := on(one), on(two)
		var last uint64
		for n := range 60 {
			b := first
			if n%2 == 1 {
				b = second
			}
			rec, err := b.Acquire(ctx, work, "a", -ttl)
			Expect(err).NotTo(HaveOccurred())
			Expect(rec.FencingToken).To(BeNumerically(">", last))
			last = rec.FencingToken
		}
	}, SpecTimeout(bound))

	DescribeTable("makes an Acquire say what is wrong", func(ctx SpecContext, statement, state string) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		lapsed, err := b.Acquire(ctx, "lapsed", "a", -ttl)
		Expect(err).NotTo(HaveOccurred())
		exec(ctx, db, statement)
		for _, id := range []string{"fresh", "lapsed"} {
			_, err := b.Acquire(ctx, id, "b", ttl)
			expectNoVerdict(err)
			Expect(err).To(saysState(state))
		}
		Expect(read(ctx, b, lapsed)).To(Equal(backend.Checkpoint{}))
		Expect(scalar[int](ctx, db, `SELECT count(*) FROM worklease_leases`)).To(Equal(1))
	},
		Entry("24b: when it is at its end", `
			ALTER SEQUENCE worklease_fencing_seq MAXVALUE 2 RESTART 2;
			SELECT nextval('worklease_fencing_seq')`, "2200H", SpecTimeout(bound)),
		Entry("24b: when it is missing", `
			DROP SEQUENCE worklease_fencing_seq CASCADE`, "42P01", SpecTimeout(bound)),
	)
})

var _ = Describe("A schema", func() {
	It("25a: outside the search_path works by its name, and is missed without it", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(false))
		pgtest.ApplySchema(db, "elsewhere")
		b := on(db, postgres.WithSchema("elsewhere"))
		rec := acquire(ctx, b, work, "a")
		Expect(b.Checkpoint(ctx, rec, []byte("state"), ttl)).To(Succeed())
		Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
		Expect(read(ctx, b, rec).State).To(Equal([]byte("state")))
		Expect(b.Release(ctx, rec, backend.ExitRetired)).To(Succeed())
		Expect(b.Sweep(ctx, backend.SweepOptions{Retention: -ttl})).To(BeNumerically("==", 1))
		Expect(b.Restore(ctx, acquire(ctx, b, work, "a"))).To(Succeed())
		Expect(b.Forget(ctx, acquire(ctx, b, work, "a"))).To(Succeed())

		err := on(db).Renew(ctx, rec, ttl)
		expectNoVerdict(err)
		Expect(err).To(saysState("42P01"))
		Expect(err).To(MatchError(ContainSubstring(`"worklease_leases"`)))
	}, SpecTimeout(bound))

	It("25a: shares nothing with another one", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		pgtest.ApplySchema(db, "one")
		pgtest.ApplySchema(db, `the "other's`)
		one, other := on(db, postgres.WithSchema("one")), on(db, postgres.WithSchema(`the "other's`))
		for range 3 {
			_, err := one.Acquire(ctx, work, "z", -ttl)
			Expect(err).NotTo(HaveOccurred())
		}
		a := acquire(ctx, one, work, "a")
		b := acquire(ctx, other, work, "b")
		Expect(a.FencingToken).To(BeNumerically(">", 3))
		Expect(b.FencingToken).To(BeNumerically("==", 1))
		Expect(read(ctx, other, b)).To(Equal(backend.Checkpoint{}))
		Expect(scalar[int](ctx, db, `SELECT count(*) FROM worklease_leases`)).To(BeZero())
	}, SpecTimeout(bound))

	It("31a: that is not there is named, nothing is half-written, and applying it is enough", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(false))
		b := on(db)
		rec := backend.LeaseRecord{WorkID: work, HolderID: "a", FencingToken: 1}
		calls := map[string]func() error{
			"Acquire":        func() error { _, err := b.Acquire(ctx, work, "a", ttl); return err },
			"Checkpoint":     func() error { return b.Checkpoint(ctx, rec, nil, ttl) },
			"Renew":          func() error { return b.Renew(ctx, rec, ttl) },
			"Release":        func() error { return b.Release(ctx, rec, backend.ExitFinished) },
			"ReadCheckpoint": func() error { _, err := b.ReadCheckpoint(ctx, rec); return err },
			"Forget":         func() error { return b.Forget(ctx, rec) },
			"Restore":        func() error { return b.Restore(ctx, rec) },
			"Sweep":          func() error { _, err := b.Sweep(ctx, backend.SweepOptions{}); return err },
		}
		for name, call := range calls {
			err := call()
			expectNoVerdict(err)
			Expect(err).To(MatchError(ContainSubstring(`relation "worklease_leases" does not exist`)), name)
			Expect(b.Transient(err)).To(BeFalse(), name)
		}

		exec(ctx, db, `CREATE SCHEMA IF NOT EXISTS `+scalar[string](ctx, db, `SHOW search_path`))
		exec(ctx, db, postgres.Schema)
		Expect(scalar[int](ctx, db, `SELECT count(*) FROM worklease_leases`)).To(BeZero())
		acquire(ctx, b, work, "a")
	}, SpecTimeout(bound))
})

var _ = Describe("An isolation level that the database has as its default", func() {
	DescribeTable("gives serialization errors at worst, never a wrong answer", func(ctx SpecContext, level string) {
		db := pgtest.Open(with(ownSchema(true), "default_transaction_isolation", level))
		db.SetMaxIdleConns(16)
		b := on(db)
		Expect(scalar[string](ctx, db, `SHOW transaction_isolation`)).NotTo(Equal("read committed"))

		// patient makes a call again while it fails for the isolation level alone.
		var failures atomic.Int64
		patient := func(call func() error) error {
			for {
				err := call()
				if err == nil || errors.Is(err, backend.ErrLeaseHeld) {
					return err
				}
				Expect(err).To(saysState("40001"))
				failures.Add(1)
			}
		}
		id := func(n int) string { return "work-" + strconv.Itoa(n%4) }
		for n := range 4 {
			rec := acquire(ctx, b, id(n), "first")
			Expect(b.Checkpoint(ctx, rec, []byte("0"), ttl)).To(Succeed())
			Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
		}
		var inside, runs [4]atomic.Int64
		var workers sync.WaitGroup
		for n := range 16 {
			workers.Go(func() {
				defer GinkgoRecover()
				holder := "holder-" + strconv.Itoa(n)
				for k := n; k < n+60; k++ {
					var rec backend.LeaseRecord
					if patient(func() (err error) { rec, err = b.Acquire(ctx, id(k), holder, ttl); return err }) != nil {
						continue
					}
					Expect(inside[k%4].Add(1)).To(BeNumerically("==", 1))
					var cp backend.Checkpoint
					Expect(patient(func() (err error) { cp, err = b.ReadCheckpoint(ctx, rec); return err })).To(Succeed())
					Expect(string(cp.State)).To(Equal(strconv.FormatInt(runs[k%4].Load(), 10)))
					Expect(cp.PrevExit).To(Equal(backend.ExitFinished))
					Expect(patient(func() error { return b.Renew(ctx, rec, ttl) })).To(Succeed())
					state := fmt.Append(nil, runs[k%4].Add(1))
					Expect(patient(func() error { return b.Checkpoint(ctx, rec, state, ttl) })).To(Succeed())
					inside[k%4].Add(-1)
					Expect(patient(func() error { return b.Release(ctx, rec, backend.ExitFinished) })).To(Succeed())
				}
			})
		}
		workers.Wait()

		for n := range 4 {
			last := acquire(ctx, b, id(n), "last")
			Expect(string(read(ctx, b, last).State)).To(Equal(strconv.FormatInt(runs[n].Load(), 10)))
			GinkgoWriter.Printf("%s: %d runs\n", id(n), runs[n].Load())
		}
		GinkgoWriter.Printf("%d serialization errors\n", failures.Load())
	},
		Entry("27a: repeatable read", "repeatable read", SpecTimeout(bound)),
		Entry("27a: serializable", "serializable", SpecTimeout(bound)),
	)
})

var _ = Describe("A session that the application changed", func() {
	It("26a: has the same instants and the same bytes", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		db.SetMaxOpenConns(1)
		exec(ctx, db, `SET datestyle = 'SQL, DMY'`)
		exec(ctx, db, `SET timezone = 'Asia/Kolkata'`)
		exec(ctx, db, `SET intervalstyle = 'sql_standard'`)
		exec(ctx, db, `SET bytea_output = 'escape'`)
		b := on(db)

		start := time.UnixMicro(serverNow(ctx, db))
		rec := acquire(ctx, b, work, "a")
		Expect(rec.ExpiresAt).To(BeTemporally("~", start.Add(ttl), 5*time.Second))
		_, err := b.Acquire(ctx, work, "b", ttl)
		var held *backend.HeldError
		Expect(errors.As(err, &held)).To(BeTrue())
		Expect(held.HolderID).To(Equal("a"))
		Expect(held.Remaining).To(BeNumerically("~", ttl, 5*time.Second))

		state := make([]byte, 256)
		for i := range state {
			state[i] = byte(i)
		}
		Expect(b.Checkpoint(ctx, rec, state, ttl)).To(Succeed())
		Expect(read(ctx, b, rec).State).To(Equal(state))
		Expect(b.Release(ctx, rec, backend.ExitRetired)).To(Succeed())
		Expect(b.Sweep(ctx, backend.SweepOptions{Retention: -ttl})).To(BeNumerically("==", 1))
	}, SpecTimeout(bound))
})
