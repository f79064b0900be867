// Package serverfaults holds the specs of what can happen between the library
// and a PostgreSQL server, for one driver of database/sql: connections that go
// dead, a server that stops answering, ends sessions, restarts, refuses writes or
// holds locks, and replies that are lost.
//
// A suite registers them, and lets the processes that some of them start be
// children:
//
//	func TestMain(m *testing.M) {
//		serverfaults.Child() // ends the process if it is one
//		os.Exit(m.Run())
//	}
//
//	var _ = Describe("Through lib/pq", serverfaults.Specs("postgres", pqlisten.New))
//
// On a real server a bound is the case's own and [margin]. The build tag long
// adds the specs that take minutes.
package serverfaults

import (
	"context"
	"database/sql"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

const (
	work = "work"

	// ttl leaves the library room to notice a call that hangs and to make
	// another, also on a machine that is busy.
	ttl = 2 * time.Second

	// margin is how much later than its bound something may happen here.
	margin = time.Second
)

const limit = SpecTimeout(time.Minute)

// Specs returns the tree of specs through the driver of that name, and with listeners
// that listen makes.
func Specs(driver string, listen func(dsn string) (*postgres.Listener, error)) func() {
	return func() {
		s := &subject{driver: driver, listen: listen}

		Context("on the server that all share:", func() {
			BeforeEach(func() {
				s.dsn = pgtest.Database()
				noLeaks()
			})
			Context("a connection", s.connectionSpecs)
			Context("a reply", s.replySpecs)
			Context("the end of a session", s.sessionSpecs)
			Context("a clock", s.clockSpecs)
			Context("a deadline", s.deadlineSpecs)
			Context("a row that is locked", s.lockSpecs)
			Context("a server that refuses", s.refusalSpecs)
			Context("the settings of a role", s.settingSpecs)
			Context("the only connection", s.poolSpecs)
			Context("a sequence", s.sequenceSpecs)
			Context("a table that changes", s.tableSpecs)
			Context("a sweep", s.sweepSpecs)
			Context("handoffs", s.handoffSpecs)
			Context("a transaction of the caller's", s.transactionSpecs)
			s.longSpecs()
		})

		// One for all of them, since starting a server takes seconds.
		Context("on a server of their own:", Ordered, ContinueOnFailure, func() {
			var server *pgtest.Server
			BeforeAll(func() {
				server = pgtest.Start(pgtest.Options{Config: []string{"max_prepared_transactions = 2"}})
			})
			BeforeEach(func() {
				s.server, s.dsn = server, server.Database()
				noLeaks()
			})
			Context("silence", s.silenceSpecs)
			Context("an orphan of two-phase commit", s.orphanSpecs)
			Context("a transaction pooler", s.poolerSpecs)
			Context("a transaction pooler", s.deafSpecs)
			Context("a restart", s.restartSpecs)
			Context("the password and the state", s.secretSpecs)
		})
	}
}

// subject is the library over one driver.
type subject struct {
	driver string
	listen func(dsn string) (*postgres.Listener, error)

	// Of the spec that runs:
	dsn    string         // of a database of its own
	server *pgtest.Server // that it may stop
}

// restarted matches the goroutine that waits for a server which a spec started
// again, and so stays.
var restarted = gleak.IgnoringCreator("github.com/aetomala/worklease/internal/testkit/pgtest.(*Server).start")

// noLeaks holds a spec to the goroutines there were. What it opens itself it must
// open later. An attempt at a lease that nobody could use goes on for as long as the
// TTL, and so does giving it back: twice 10 s where it is longest.
func noLeaks() {
	before := gleak.Goroutines()
	DeferCleanup(func() {
		Eventually(gleak.Goroutines).WithTimeout(30 * time.Second).ShouldNot(gleak.HaveLeaked(before, restarted))
	})
}

// open opens dsn with the driver, and closes it with the spec.
func (s *subject) open(dsn string) *sql.DB {
	GinkgoHelper()
	return pgtest.OpenDriver(s.driver, dsn)
}

// database applies the schema to the spec's database and opens it.
func (s *subject) database() *sql.DB {
	GinkgoHelper()
	pgtest.OpenWithSchema(s.dsn)
	return s.open(s.dsn)
}

// on makes a backend on db.
func on(db *sql.DB, opts ...postgres.Option) *postgres.Backend {
	GinkgoHelper()
	b, err := postgres.New(db, opts...)
	Expect(err).NotTo(HaveOccurred())
	return b
}

// holder makes the lease of a holder on b.
func holder(b backend.Backend, id string, ttl time.Duration) worklease.Lease {
	GinkgoHelper()
	return observed(b, id, ttl, nil)
}

func observed(b backend.Backend, id string, ttl time.Duration, o worklease.LeaseObserver) worklease.Lease {
	GinkgoHelper()
	l, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: id, Observer: o})
	Expect(err).NotTo(HaveOccurred())
	return l
}

func acquire(ctx context.Context, l worklease.Lease, workID string) worklease.Token {
	GinkgoHelper()
	token, err := l.Acquire(ctx, workID)
	Expect(err).NotTo(HaveOccurred())
	return token
}

func read(ctx context.Context, l worklease.Lease, token worklease.Token) worklease.Checkpoint {
	GinkgoHelper()
	cp, err := l.ReadCheckpoint(ctx, token)
	Expect(err).NotTo(HaveOccurred())
	return cp
}

// renewing acquires the lease on workID and keeps it renewed until the spec ends.
func renewing(ctx context.Context, l worklease.Lease, workID string) (worklease.Token, context.Context) {
	GinkgoHelper()
	token := acquire(ctx, l, workID)
	renewCtx, stop := l.StartRenewal(context.WithoutCancel(ctx), token)
	DeferCleanup(stop)
	return token, renewCtx
}

// run executes statements through db.
func run(ctx context.Context, db *sql.DB, statements ...string) {
	GinkgoHelper()
	for _, statement := range statements {
		_, err := db.ExecContext(ctx, statement)
		Expect(err).NotTo(HaveOccurred(), statement)
	}
}

// window returns when the window of renewCtx closes.
func window(renewCtx context.Context) time.Time {
	deadline, _ := worklease.LeaseWindow(renewCtx)
	return deadline
}

// expectRenewed waits for a renewal that starts from now on.
func expectRenewed(renewCtx context.Context, ttl time.Duration) {
	GinkgoHelper()
	from := time.Now()
	Eventually(func() time.Time { return window(renewCtx) }).WithTimeout(ttl+margin).
		Should(BeTemporally(">", from.Add(ttl)), "the lease was not renewed: %v", context.Cause(renewCtx))
}

// expectWindowCloses waits for the end of a renewal context whose renewals fail
// and holds that it came with the window.
func expectWindowCloses(renewCtx context.Context) {
	GinkgoHelper()
	closes := time.Now()
	Eventually(func() error {
		// A renewal that succeeded before may still be on its way.
		if deadline, ok := worklease.LeaseWindow(renewCtx); ok {
			closes = deadline
		}
		return renewCtx.Err()
	}).WithTimeout(10 * time.Second).Should(HaveOccurred())
	Expect(time.Now()).To(BeTemporally("<", closes.Add(margin)))
	Expect(context.Cause(renewCtx)).To(MatchError(worklease.ErrLeaseWindowExhausted))
}

// expectNoVerdict holds that err says nothing about the lease.
func expectNoVerdict(err error) {
	GinkgoHelper()
	Expect(err).To(HaveOccurred())
	for _, verdict := range []error{worklease.ErrFenced, worklease.ErrLeaseHeld, worklease.ErrLeaseExpired, worklease.ErrInvalidExitMode} {
		Expect(err).NotTo(MatchError(verdict))
	}
}

// stateOf returns the SQLSTATE that errors.As reaches in err.
func stateOf(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}
