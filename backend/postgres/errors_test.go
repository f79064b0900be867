package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/lib/pq"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// state is a driver's error with a SQLSTATE.
type state string

func (s state) Error() string    { return "driver: " + string(s) }
func (s state) SQLState() string { return string(s) }

// refusing is a driver whose connections refuse every statement.
type refusing struct{ err error }

func (r refusing) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r refusing) Driver() driver.Driver                        { return nil }
func (r refusing) Prepare(string) (driver.Stmt, error)          { return nil, r.err }
func (r refusing) Begin() (driver.Tx, error)                    { return nil, r.err }
func (r refusing) Close() error                                 { return nil }

// breaking is a driver whose connections break with each statement, sent or not.
type breaking struct{ refusing }

func (b breaking) Connect(context.Context) (driver.Conn, error)   { return b, nil }
func (b breaking) Prepare(string) (driver.Stmt, error)            { return b, nil }
func (b breaking) NumInput() int                                  { return -1 }
func (b breaking) Exec([]driver.Value) (driver.Result, error)     { return nil, b.err }
func (b breaking) Query(args []driver.Value) (driver.Rows, error) { return nil, b.err }

func openStub(c driver.Connector) *sql.DB {
	db := sql.OpenDB(c)
	DeferCleanup(db.Close)
	return db
}

const option = "postgres.WithTransactionPooler"

var _ = Describe("New", func() {
	It("refuses a nil db", func() {
		_, err := postgres.New(nil)
		Expect(err).To(MatchError("postgres: New: db is nil"))
	})

	DescribeTable("refuses a schema that PostgreSQL would not take", func(name string) {
		noLeaks()
		_, err := postgres.New(openStub(refusing{io.EOF}), postgres.WithSchema(name))
		Expect(err).To(MatchError(HavePrefix("postgres: New: schema ")))
	},
		Entry("of more than 63 bytes", strings.Repeat("s", 64)),
		Entry("of more than 63 bytes, though fewer letters", strings.Repeat("ä", 32)),
		Entry("with a NUL", "s\x00"),
		Entry("that is no UTF-8", "s\xff"),
	)

	It("does no I/O", func() {
		noLeaks()
		_, err := postgres.New(openStub(refusing{io.EOF}), postgres.WithSchema(strings.Repeat("s", 63)))
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("Errors", func() {
	BeforeEach(noLeaks)

	DescribeTable("name the option for poolers where one may be the cause", func(ctx SpecContext, s state) {
		db := openStub(refusing{s})
		err := on(db).Renew(ctx, backend.LeaseRecord{FencingToken: 1}, ttl)
		Expect(err).To(MatchError(s))
		Expect(err).To(MatchError(ContainSubstring(option)))

		err = on(db, postgres.WithTransactionPooler()).Renew(ctx, backend.LeaseRecord{FencingToken: 1}, ttl)
		Expect(err).To(MatchError(s))
		Expect(err).NotTo(MatchError(ContainSubstring(option)))
	},
		Entry("a statement that is unknown", state("26000"), SpecTimeout(bound)),
		Entry("a statement that is there already", state("42P05"), SpecTimeout(bound)),
		Entry("a protocol violation", state("08P01"), SpecTimeout(bound)),
		Entry("a text that is no number", state("22P02"), SpecTimeout(bound)),
		Entry("bytes that are no number", state("22P03"), SpecTimeout(bound)),
	)

	DescribeTable("do not name it elsewhere", func(ctx SpecContext, cause error) {
		err := on(openStub(refusing{cause})).Renew(ctx, backend.LeaseRecord{FencingToken: 1}, ttl)
		Expect(err).To(MatchError(cause))
		Expect(err).NotTo(MatchError(ContainSubstring(option)))
	},
		Entry("a serialization failure", state("40001"), SpecTimeout(bound)),
		Entry("a missing relation", state("42P01"), SpecTimeout(bound)),
		Entry("a connection that ended", io.EOF, SpecTimeout(bound)),
	)

	It("of a connection that breaks each time are bad connections and pass", func(ctx SpecContext) {
		b := on(openStub(breaking{refusing{driver.ErrBadConn}}))
		_, err := b.Acquire(ctx, work, "a", ttl)
		expectNoVerdict(err)
		Expect(err).To(MatchError(driver.ErrBadConn))
		Expect(b.Transient(err)).To(BeTrue())
	}, SpecTimeout(bound))

	It("say that the context has ended, beside what the driver says", func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		b := on(openStub(cancelling{refusing{state("57014")}, cancel}))
		err := b.Renew(ctx, backend.LeaseRecord{FencingToken: 1}, ttl)
		Expect(err).To(MatchError(context.Canceled))
		Expect(err).To(MatchError(state("57014")))
	})
})

// cancelling ends the caller's context before it refuses.
type cancelling struct {
	refusing
	cancel func()
}

func (c cancelling) Connect(context.Context) (driver.Conn, error) { return c, nil }

func (c cancelling) Prepare(string) (driver.Stmt, error) {
	c.cancel()
	return nil, c.err
}

var _ = Describe("Transient", func() {
	b := new(postgres.Backend)

	DescribeTable("knows what passes", func(err error, passes bool) {
		Expect(b.Transient(err)).To(Equal(passes))
		if err != nil {
			Expect(b.Transient(fmt.Errorf("wrapped: %w", err))).To(Equal(passes))
		}
	},
		Entry("no error", nil, false),
		Entry("ErrFenced", backend.ErrFenced, false),
		Entry("ErrLeaseHeld", &backend.HeldError{HolderID: "a"}, false),
		Entry("ErrLeaseExpired", backend.ErrLeaseExpired, false),
		Entry("ErrInvalidExitMode", backend.ErrInvalidExitMode, false),
		Entry("a stranger's error", errors.New("refused"), false),
		Entry("a cancelled call", context.Canceled, false),
		Entry("an ended connection", io.EOF, true),
		Entry("a connection that ended in the middle", io.ErrUnexpectedEOF, true),
		Entry("a bad connection", driver.ErrBadConn, true),
		Entry("a reset", errReset, true),
		Entry("a server that cannot be found", &net.DNSError{Err: "no such host"}, true),
		Entry("a connection exception", state("08006"), true),
		Entry("a serialization failure", state("40001"), true),
		Entry("a deadlock", state("40P01"), true),
		Entry("too many connections", state("53300"), true),
		Entry("a full disk", state("53100"), true),
		Entry("a lock that is not available", state("55P03"), true),
		Entry("a statement timeout", state("57014"), true),
		Entry("a shutdown by the administrator", state("57P01"), true),
		Entry("a crash", state("57P02"), true),
		Entry("a server that starts up", state("57P03"), true),
		Entry("a read-only server", state("25006"), true),
		Entry("a session ended for being idle inside a transaction", state("25P03"), true),
		Entry("a session ended for a long transaction", state("25P04"), true),
		Entry("a transaction that failed before", state("25P02"), false),
		Entry("a unique violation", state("23505"), false),
		Entry("a missing relation", state("42P01"), false),
		Entry("a missing privilege", state("42501"), false),
		Entry("an exhausted sequence", state("2200H"), false),
		Entry("a value that is too long", state("54000"), false),
		Entry("a wrong password", state("28P01"), false),
		Entry("a SQLSTATE that is none", state("57"), false),
	)
})

var _ = Describe("A statement that was executed in place of another", func() {
	It("changes nothing and is noticed", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		db.SetMaxIdleConns(10)
		right := on(db)
		rec := acquire(ctx, right, work, "a")
		Expect(right.Checkpoint(ctx, rec, []byte("state"), ttl)).To(Succeed())
		row := func() string {
			return scalar[string](ctx, db, `SELECT string_agg(l::text, ';') FROM worklease_leases AS l`)
		}
		before := row()

		calls := map[string]func(*postgres.Backend) error{
			"acquire":    func(b *postgres.Backend) error { _, err := b.Acquire(ctx, "another", "b", ttl); return err },
			"check":      func(b *postgres.Backend) error { return b.Check(ctx) },
			"checkpoint": func(b *postgres.Backend) error { return b.Checkpoint(ctx, rec, []byte("new"), 2*ttl) },
			"force":      func(b *postgres.Backend) error { return b.ForceRelease(ctx, work, rec.FencingToken) },
			"forget":     func(b *postgres.Backend) error { return b.Forget(ctx, rec) },
			"list": func(b *postgres.Backend) error {
				for _, err := range b.List(ctx, backend.ListOptions{}) {
					return err
				}
				return nil
			},
			"probe": func(b *postgres.Backend) error { return b.Probe(ctx) },
			"guard": func(b *postgres.Backend) error {
				tx, err := db.BeginTx(ctx, nil)
				Expect(err).NotTo(HaveOccurred())
				defer func() { _ = tx.Rollback() }()
				return b.Guard(ctx, tx, fence{rec})
			},
			"read":    func(b *postgres.Backend) error { _, err := b.ReadCheckpoint(ctx, rec); return err },
			"release": func(b *postgres.Backend) error { return b.Release(ctx, rec, backend.ExitFinished) },
			"renew":   func(b *postgres.Backend) error { return b.Renew(ctx, rec, 2*ttl) },
			"renew_batch": func(b *postgres.Backend) error {
				verdicts, err := b.RenewBatch(ctx, []backend.LeaseRecord{rec}, 2*ttl)
				return errors.Join(append(verdicts, err)...)
			},
			"why_batch": func(b *postgres.Backend) error {
				verdicts, err := b.RenewBatch(ctx, []backend.LeaseRecord{{WorkID: work, HolderID: "b", FencingToken: 1}}, ttl)
				return errors.Join(append(verdicts, err)...)
			},
			"restore": func(b *postgres.Backend) error { return b.Restore(ctx, rec) },
			"sweep": func(b *postgres.Backend) error {
				_, err := b.Sweep(ctx, backend.SweepOptions{Retention: -ttl, IncludeExpired: true})
				return err
			},
			"tokens": func(b *postgres.Backend) error { return b.Check(ctx) },
			"why": func(b *postgres.Backend) error {
				_ = b.Release(ctx, backend.LeaseRecord{WorkID: work, HolderID: "b", FencingToken: 1}, backend.ExitFinished)
				return b.Renew(ctx, backend.LeaseRecord{WorkID: work, HolderID: "b", FencingToken: 1}, ttl)
			},
		}
		Expect(calls).To(HaveLen(len(postgres.Statements)))
		pairs := 0
		for name, call := range calls {
			for _, other := range postgres.Statements {
				if other == name || right.Parameters(other) != right.Parameters(name) {
					continue
				}
				for _, opts := range [][]postgres.Option{nil, {postgres.WithNotifications(postgres.NewListener(nil))}} {
					pairs++
					b := on(db, opts...)
					b.Misroute(name, other)
					err := call(b)
					expectNoVerdict(err)
					Expect(err).To(MatchError(ContainSubstring(option)), other+" in place of "+name)
					Expect(row()).To(Equal(before), other+" in place of "+name)
				}
			}
		}
		Expect(pairs).To(BeNumerically(">=", 20))
	}, SpecTimeout(bound))

	DescribeTable("is noticed where it is a stranger's", func(ctx SpecContext, text string) {
		db := pgtest.Open(ownSchema(true))
		rec := acquire(ctx, on(db), work, "a")
		b := on(db)
		b.MisrouteText("read", text)
		_, err := b.ReadCheckpoint(ctx, rec)
		expectNoVerdict(err)
		Expect(err).To(MatchError(ContainSubstring(option)))
	},
		Entry("that answers another number of columns",
			`SELECT $1::text, $2::text, $3::text`, SpecTimeout(bound)),
		Entry("that answers other types",
			`SELECT $1::text || 'x', $2::text, $3::text, now(), 1`, SpecTimeout(bound)),
		Entry("that answers no row",
			`SELECT $1::text, true, NULL::bytea, 'none', '' WHERE $2::text = $3::text`, SpecTimeout(bound)),
	)
})

var _ = Describe("A state", func() {
	It("is not shown where a stranger's statement refuses it", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		b.MisrouteText("checkpoint", `SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::bigint, $7::text`)
		err := b.Checkpoint(ctx, rec, []byte("secret"), ttl)
		expectNoVerdict(err)
		Expect(err).To(MatchError(And(ContainSubstring("22P02"), ContainSubstring(option))))
		Expect(err).NotTo(MatchError(Or(ContainSubstring("secret"), ContainSubstring(hex.EncodeToString([]byte("secret"))))))
		var refused *pq.Error
		Expect(errors.As(err, &refused)).To(BeTrue())
	}, SpecTimeout(bound))

	It("over 128 MiB is refused before anything is sent, naming size and bound", func(ctx SpecContext) {
		l, over := openLine(ownSchema(true))
		b := on(over)
		rec := acquire(ctx, b, work, "a")
		l.watch(nil)
		err := b.Checkpoint(ctx, rec, make([]byte, postgres.MaxState+1), ttl)
		expectNoVerdict(err)
		Expect(err).To(MatchError(And(ContainSubstring("134217729"), ContainSubstring("134217728"))))
		Expect(b.Transient(err)).To(BeFalse())
		Expect(l.trips()).To(BeZero())
	}, SpecTimeout(bound))
})
