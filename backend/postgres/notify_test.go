package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lib/pq"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/backend/postgres/pqlisten"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// soon is how long something may take that takes milliseconds.
const soon = 10 * time.Second

// listening makes a Listener that connects to dsn, and ends it with the spec.
func listening(dsn string) *postgres.Listener {
	GinkgoHelper()
	l, err := pqlisten.New(dsn)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Close)
	return l
}

var _ = Describe("PostgreSQL with notifications", func() {
	Describe("as it comes", conformance.RunSuite(func() backend.Backend {
		return open(postgres.WithNotifications(listening(dsn)))
	}))
})

// The classes of the locks that say that somebody waits: for one lease, for any.
const (
	forOne = 2003792491
	forAny = 2003792492
)

// marked returns how many locks of a class there are.
func marked(ctx context.Context, db *sql.DB, class int) func() int {
	return func() (n int) {
		GinkgoHelper()
		Expect(db.QueryRowContext(ctx, `
			SELECT count(*) FROM pg_locks
			WHERE locktype = 'advisory' AND mode = 'ShareLock' AND classid = $1
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, class).Scan(&n)).To(Succeed())
		return n
	}
}

// channel returns the name of the channel of a schema.
func channel(ctx context.Context, db *sql.DB, schema string) (name string) {
	GinkgoHelper()
	b := on(db, postgres.WithSchema(schema), postgres.WithNotifications(postgres.NewListener(nil)))
	Expect(db.QueryRowContext(ctx, "SELECT "+b.Fragment("channel")).Scan(&name)).To(Succeed())
	return name
}

// eavesdrop returns all that is told on a schema's channel from now on.
func eavesdrop(ctx context.Context, db *sql.DB, dsn, schema string) <-chan *pq.Notification {
	GinkgoHelper()
	heard := make(chan *pq.Notification, 1000)
	conn, err := pq.NewListenerConn(dsn, heard)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(conn.Close()).To(Succeed())
		for range heard {
		}
	})
	Expect(conn.Listen(channel(ctx, db, schema))).Error().NotTo(HaveOccurred())
	return heard
}

// next returns what is told next.
func next(heard <-chan *pq.Notification) string {
	GinkgoHelper()
	var n *pq.Notification
	Eventually(heard).WithTimeout(soon).Should(Receive(&n))
	return n.Extra
}

// wait makes somebody wait for a lease that is held, and returns what is told.
func wait(ctx context.Context, b *postgres.Backend, workID string) (free <-chan int, stop func()) {
	GinkgoHelper()
	free, stop = b.Subscribe(workID)
	_, err := b.Acquire(ctx, workID, "waiter", ttl)
	Expect(err).To(MatchError(backend.ErrLeaseHeld))
	return free, stop
}

// drained waits until a Listener has connected, which wakes everybody.
func drained(free <-chan int) {
	GinkgoHelper()
	Eventually(free).WithTimeout(soon).Should(Receive())
}

var _ = Describe("Notifications", func() {
	var (
		db   *sql.DB
		own  string
		b    *postgres.Backend
		l    *postgres.Listener
		work string
	)
	BeforeEach(func() {
		own = ownSchema(true)
		db = pgtest.Open(own)
		l = listening(own)
		b = on(db, postgres.WithNotifications(l))
		work = "work"
	})

	DescribeTable("are sent when a lease is freed for which somebody waits, and only then",
		func(ctx SpecContext, free func(context.Context, backend.LeaseRecord) error) {
			heard := eavesdrop(ctx, db, own, "")
			rec := acquire(ctx, b, "unwanted", "a")
			Expect(free(ctx, rec)).To(Succeed())

			rec = acquire(ctx, b, work, "a")
			told, stop := wait(ctx, b, work)
			defer stop()
			drained(told)
			Expect(marked(ctx, db, forOne)()).To(Equal(1))
			Expect(free(ctx, acquire(ctx, b, "unwanted too", "a"))).To(Succeed())
			Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
			Expect(b.Checkpoint(ctx, rec, []byte("state"), ttl)).To(Succeed())
			Expect(free(ctx, rec)).To(Succeed())
			Eventually(told).WithTimeout(soon).Should(Receive(Equal(1)))

			Expect(next(heard)).To(BeEmpty(), "the probe")
			Expect(next(heard)).To(Equal(work))
		},
		Entry("by Release", SpecTimeout(bound), func(ctx context.Context, rec backend.LeaseRecord) error {
			return b.Release(ctx, rec, backend.ExitFinished)
		}),
		Entry("by Forget", SpecTimeout(bound), func(ctx context.Context, rec backend.LeaseRecord) error {
			return b.Forget(ctx, rec)
		}),
		Entry("by ForceRelease", SpecTimeout(bound), func(ctx context.Context, rec backend.LeaseRecord) error {
			return b.ForceRelease(ctx, rec.WorkID, rec.FencingToken)
		}),
		Entry("by Restore", SpecTimeout(bound), func(ctx context.Context, rec backend.LeaseRecord) error {
			return b.Restore(ctx, rec)
		}),
		Entry("by Restore to a holder before", SpecTimeout(bound), func(ctx context.Context, rec backend.LeaseRecord) error {
			if err := on(db).Release(ctx, rec, backend.ExitFinished); err != nil {
				return err
			}
			return b.Restore(ctx, acquire(ctx, b, rec.WorkID, "c"))
		}),
	)

	It("are not sent by a Release that is refused", func(ctx SpecContext) {
		heard := eavesdrop(ctx, db, own, "")
		rec := acquire(ctx, b, work, "a")
		told, stop := wait(ctx, b, work)
		defer stop()
		drained(told)
		stale := rec
		stale.FencingToken++
		Expect(b.Release(ctx, stale, backend.ExitFinished)).To(MatchError(backend.ErrFenced))
		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
		Expect(next(heard)).To(BeEmpty())
		Expect(next(heard)).To(Equal(work))
		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(MatchError(backend.ErrLeaseExpired))
		Expect(b.Probe(ctx)).To(Succeed())
		Expect(next(heard)).To(BeEmpty())
	}, SpecTimeout(bound))

	It("reach a waiter in another process whatever its work ID", func(ctx SpecContext) {
		there := on(db, postgres.WithNotifications(listening(own)))
		ids := []string{`'); DROP TABLE worklease_leases; --`, `back\slash`, `"quoted"`, "E'\\x'", "ü\n\t😀", "$1", "/*keys*/", strings.Repeat("ä", 512)}
		for n, id := range ids {
			rec := acquire(ctx, b, id, "a")
			told, stop := wait(ctx, there, id)
			defer stop()
			Eventually(marked(ctx, db, forOne)).WithTimeout(soon).Should(Equal(n + 1))
			Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
			Eventually(told).WithTimeout(soon).Should(Receive())
		}
	}, SpecTimeout(bound))

	It("have a channel for each schema, whose name the server does not cut", func(ctx SpecContext) {
		first, odd := channel(ctx, db, ""), channel(ctx, db, oddSchema)
		Expect(first).NotTo(Equal(odd))
		Expect(len(first)).To(BeNumerically("<=", 63))
		Expect(len(odd)).To(BeNumerically("<=", 63))
	}, SpecTimeout(bound))

	It("follow a table that was made anew", func(ctx SpecContext) {
		acquire(ctx, b, work, "a")
		told, stop := wait(ctx, b, work)
		defer stop()
		drained(told)
		Expect(db.ExecContext(ctx, `DROP TABLE worklease_leases`)).Error().NotTo(HaveOccurred())
		Expect(db.ExecContext(ctx, postgres.Schema)).Error().NotTo(HaveOccurred())
		Eventually(func() bool {
			rec := acquire(ctx, b, work, "a")
			Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
			select {
			case <-told:
				return true
			case <-time.After(time.Second):
				return false
			}
		}).WithTimeout(40 * time.Second).Should(BeTrue())
	}, SpecTimeout(bound))

	It("are the same whether the schema comes from WithSchema or from the search_path", func(ctx SpecContext) {
		var schema string
		Expect(db.QueryRowContext(ctx, `SELECT current_schema()`).Scan(&schema)).To(Succeed())
		Expect(channel(ctx, db, schema)).To(Equal(channel(ctx, db, "")))
	}, SpecTimeout(bound))

	It("cost an acquisition that succeeds nothing: no connection is made for it, nor for one that nobody repeats", func(ctx SpecContext) {
		dialed := false
		l := postgres.NewListener(func(context.Context) (postgres.ListenerConn, error) {
			dialed = true
			return nil, io.EOF
		})
		b := on(db, postgres.WithNotifications(l))
		_, stop := b.Subscribe(work)
		rec := acquire(ctx, b, work, "a")
		stop()
		_, err := b.Acquire(ctx, work, "b", ttl)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
		l.Close()
		Expect(dialed).To(BeFalse())
	}, SpecTimeout(bound))

	It("come again after the connection is lost, and wake everybody once then", func(ctx SpecContext) {
		rec := acquire(ctx, b, work, "a")
		told, stop := wait(ctx, b, work)
		defer stop()
		drained(told)
		for range 3 {
			hangUp(ctx, db)
			Eventually(l.Err).WithTimeout(soon).Should(HaveOccurred())
			Eventually(told).WithTimeout(soon).Should(Receive(), "what was missed")
			Expect(l.Err()).NotTo(HaveOccurred())
			Expect(told).NotTo(Receive())
		}
		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
		Eventually(told).WithTimeout(soon).Should(Receive())
	}, SpecTimeout(bound))

	It("say for what somebody waits one by one, for everything where that is much, and take it back", func(ctx SpecContext) {
		const many = 70
		var stops []func()
		for n := range many {
			id := fmt.Sprint("work-", n)
			acquire(ctx, b, id, "a")
			_, stop := wait(ctx, b, id)
			stops = append(stops, stop)
			if n == 9 {
				Eventually(marked(ctx, db, forOne)).WithTimeout(soon).Should(Equal(10))
			}
		}
		Eventually(marked(ctx, db, forAny)).WithTimeout(soon).Should(Equal(64))
		Eventually(marked(ctx, db, forOne)).WithTimeout(soon).Should(BeZero())
		heard := eavesdrop(ctx, db, own, "")
		Expect(b.Release(ctx, acquire(ctx, b, "unwanted", "a"), backend.ExitFinished)).To(Succeed())
		Expect(next(heard)).To(Equal("unwanted"))

		for _, stop := range stops[1:] {
			stop()
		}
		Eventually(marked(ctx, db, forOne)).WithTimeout(30 * time.Second).Should(Equal(1))
		Eventually(marked(ctx, db, forAny)).WithTimeout(soon).Should(BeZero())
		Eventually(func() string {
			Expect(b.Release(ctx, acquire(ctx, b, "unwanted", "a"), backend.ExitFinished)).To(Succeed())
			Expect(b.Probe(ctx)).To(Succeed())
			return next(heard)
		}).WithTimeout(30 * time.Second).Should(BeEmpty())
		stops[0]()
		Eventually(marked(ctx, db, forOne)).WithTimeout(30 * time.Second).Should(BeZero())
	}, SpecTimeout(2*bound))

	It("go on to others while one lease's mark cannot be had", func(ctx SpecContext) {
		// As a statement that frees the lease does until its end.
		tx, err := db.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		defer tx.Rollback() //nolint:errcheck // After the end it has nothing to do.
		Expect(tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(2003792491, hashtext('stuck'))`)).Error().NotTo(HaveOccurred())

		acquire(ctx, b, "stuck", "a")
		rec := acquire(ctx, b, work, "a")
		_, stopStuck := wait(ctx, b, "stuck")
		defer stopStuck()
		told, stop := wait(ctx, b, work)
		defer stop()
		drained(told)
		Eventually(marked(ctx, db, forOne)).WithTimeout(soon).Should(Equal(1))
		Expect(l.Err()).NotTo(HaveOccurred())
		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
		Eventually(told).WithTimeout(soon).Should(Receive())
		Expect(tx.Rollback()).To(Succeed())
		Eventually(marked(ctx, db, forOne)).WithTimeout(soon).Should(Equal(2))
	}, SpecTimeout(bound))
})

// hangUp ends the sessions that listen.
func hangUp(ctx context.Context, db *sql.DB) {
	GinkgoHelper()
	Expect(db.ExecContext(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND mode = 'ShareLock' AND classid IN (2003792491, 2003792492)
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)).Error().NotTo(HaveOccurred())
}

var _ = Describe("A Listener", func() {
	It("says that nobody has waited, that it hears, and that it is closed", func(ctx SpecContext) {
		own := ownSchema(true)
		db := pgtest.Open(own)
		l := listening(own)
		b := on(db, postgres.WithNotifications(l))
		Expect(l.Err()).To(MatchError("nobody has waited yet"))
		acquire(ctx, b, work, "a")
		told, stop := wait(ctx, b, work)
		defer stop()
		drained(told)
		Expect(l.Err()).NotTo(HaveOccurred())
		l.Close()
		l.Close()
		Expect(l.Err()).To(MatchError("the listener is closed"))
		_, stopped := wait(ctx, b, work)
		stopped()
		Eventually(marked(ctx, db, forOne)).WithTimeout(soon).Should(BeZero()) // the session ends by itself
	}, SpecTimeout(bound))

	It("says why it does not hear, and tries again", func(ctx SpecContext) {
		own := ownSchema(true)
		dials := make(chan struct{}, 100)
		l := postgres.NewListener(func(context.Context) (postgres.ListenerConn, error) {
			dials <- struct{}{}
			return nil, io.ErrUnexpectedEOF
		})
		DeferCleanup(l.Close)
		b := on(pgtest.Open(own), postgres.WithNotifications(l))
		acquire(ctx, b, work, "a")
		_, stop := wait(ctx, b, work)
		defer stop()
		for range 3 {
			Eventually(dials).WithTimeout(soon).Should(Receive())
		}
		Expect(l.Err()).To(MatchError(io.ErrUnexpectedEOF))
	}, SpecTimeout(bound))

	It("marks nothing on a connection that hears nothing, and says so", func(ctx SpecContext) {
		own := ownSchema(true)
		conn := &deaf{closed: make(chan struct{})}
		dials := 0
		l := postgres.NewListener(func(context.Context) (postgres.ListenerConn, error) {
			if dials++; dials > 1 {
				return nil, io.EOF
			}
			return conn, nil
		})
		DeferCleanup(l.Close)
		b := on(pgtest.Open(own), postgres.WithNotifications(l))
		acquire(ctx, b, work, "a")
		_, stop := wait(ctx, b, work)
		defer stop()
		Eventually(l.Err).WithTimeout(soon).Should(MatchError(ContainSubstring("pooler in transaction mode")))
		Eventually(conn.closed).WithTimeout(soon).Should(BeClosed())
		Expect(conn.said).To(HaveExactElements(ContainSubstring("LISTEN")))
	}, SpecTimeout(bound))

	It("ends although the driver does not come back", func(ctx SpecContext) {
		own := ownSchema(true)
		release := make(chan struct{})
		defer close(release)
		l := postgres.NewListener(func(context.Context) (postgres.ListenerConn, error) { return stuck{release}, nil })
		b := on(pgtest.Open(own), postgres.WithNotifications(l))
		acquire(ctx, b, work, "a")
		_, stop := wait(ctx, b, work)
		defer stop()
		start := time.Now()
		l.Close()
		Expect(time.Since(start)).To(BeNumerically("<", 15*time.Second))
	}, SpecTimeout(bound))

	It("closes a connection that came too late", func(ctx SpecContext) {
		own := ownSchema(true)
		release, conn := make(chan struct{}), &deaf{closed: make(chan struct{})}
		dialing := make(chan struct{}, 1)
		l := postgres.NewListener(func(context.Context) (postgres.ListenerConn, error) {
			dialing <- struct{}{}
			<-release
			return conn, nil
		})
		b := on(pgtest.Open(own), postgres.WithNotifications(l))
		acquire(ctx, b, work, "a")
		_, stop := wait(ctx, b, work)
		defer stop()
		Eventually(dialing).WithTimeout(soon).Should(Receive())
		l.Close()
		close(release)
		Eventually(conn.closed).WithTimeout(soon).Should(BeClosed())
	}, SpecTimeout(bound))

	It("has one dial out at a time, however long the driver takes", func() {
		noLeaks()
		bubble.Run(func() {
			dials, release, conn := 0, make(chan struct{}), &deaf{closed: make(chan struct{})}
			l := postgres.NewListener(func(context.Context) (postgres.ListenerConn, error) {
				dials++
				<-release
				return conn, nil
			})
			stop := l.Wait(work)
			bubble.Sleep(time.Minute)
			l.Close()
			close(release)
			<-conn.closed
			stop()
			Expect(dials).To(Equal(1))
		})
	})

	It("hears on for the others when the database of one backend is closed", func(ctx SpecContext) {
		own := ownSchema(true)
		first, second := pgtest.Open(own), pgtest.Open(own)
		l := listening(own)
		on(first, postgres.WithNotifications(l))
		b := on(second, postgres.WithNotifications(l))
		Expect(first.Close()).To(Succeed())
		acquire(ctx, b, work, "a")
		_, stop := wait(ctx, b, work)
		defer stop()
		Eventually(l.Err).WithTimeout(soon).Should(Succeed())
	}, SpecTimeout(bound))

	It("hears for several backends of one schema, and refuses another", func() {
		noLeaks()
		l := listening(dsn)
		Expect(postgres.New(db, postgres.WithNotifications(l))).Error().NotTo(HaveOccurred())
		Expect(postgres.New(db, postgres.WithNotifications(l))).Error().NotTo(HaveOccurred())
		_, err := postgres.New(db, postgres.WithSchema(oddSchema), postgres.WithNotifications(l))
		Expect(err).To(MatchError(ContainSubstring(`the listener hears for the schema "", not for "Odd \"schema's"`)))
	})

	It("is none where it is nil", func() {
		noLeaks()
		b, err := postgres.New(db, postgres.WithNotifications(nil))
		Expect(err).NotTo(HaveOccurred())
		free, stop := b.Subscribe(work)
		stop()
		Expect(free).To(BeNil())
		Expect(b.Text("release")).To(Equal(open().Text("release")))
	})

	It("is refused a dsn that the driver cannot read", func() {
		_, err := pqlisten.New("postgres://%zz")
		Expect(err).To(MatchError(HavePrefix("pqlisten: New: dsn: ")))
	})
})

// deaf is a connection that hears nothing, as through a pooler.
type deaf struct {
	said   []string
	closed chan struct{}
}

func (d *deaf) Exec(_ context.Context, statement string) error {
	d.said = append(d.said, statement)
	return nil
}

func (d *deaf) Receive(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func (d *deaf) Close() error {
	close(d.closed)
	return nil
}

// stuck is a driver that does not come back.
type stuck struct{ release chan struct{} }

func (s stuck) Exec(context.Context, string) error {
	<-s.release
	return errors.New("too late")
}

func (s stuck) Receive(context.Context) (string, error) {
	<-s.release
	return "", errors.New("too late")
}

func (s stuck) Close() error {
	<-s.release
	return nil
}
