// Package pgxtest runs PostgreSQL's suites through pgx, in a module of its own,
// so that the driver stays out of the requirements of worklease.
package pgxtest

import (
	"database/sql"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/serverfaults"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// schema has a name that is wrong wherever it is not quoted.
const schema = `Odd "name's`

func TestPgx(t *testing.T) {
	SetDefaultEventuallyTimeout(10 * time.Second)
	RegisterFailHandler(Fail)
	RunSpecs(t, "pgx")
}

var db *sql.DB

var _ = BeforeSuite(func() {
	db = pgtest.OpenDriver("pgx", pgtest.Database())
	db.SetMaxIdleConns(64)
	db.SetMaxOpenConns(64)
	pgtest.ApplySchema(db, "")
	pgtest.ApplySchema(db, schema)
})

var _ = Describe("PostgreSQL through pgx", conformance.RunSuite(newBackend()))

var _ = Describe("Transactions through pgx", pgtest.TransactionSuite(newBackend(), theDB))

var _ = Describe("Transactions through pgx, in a schema of its own",
	pgtest.TransactionSuite(newBackend(postgres.WithSchema(schema)), theDB))

var _ = Describe("Transactions through pgx, for a pooler",
	pgtest.TransactionSuite(newBackend(postgres.WithTransactionPooler()), theDB))

var _ = Describe("Through pgx, a transaction of the caller's", serverfaults.Transactions("pgx"))

func theDB() *sql.DB { return db }

var _ = DescribeTable("Check through pgx finds nothing wrong, and what is",
	func(ctx SpecContext, opts ...postgres.Option) {
		b, err := postgres.New(db, opts...)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Check(ctx)).To(Succeed())
		b, err = postgres.New(db, append(opts, postgres.WithSchema("elsewhere"))...)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Check(ctx)).To(MatchError(ContainSubstring(`no table "elsewhere".worklease_leases`)))
	},
	Entry("prepared", SpecTimeout(time.Minute)),
	Entry("for a pooler", SpecTimeout(time.Minute), postgres.WithTransactionPooler()),
)

func newBackend(opts ...postgres.Option) func() backend.Backend {
	return func() backend.Backend {
		b, err := postgres.New(db, opts...)
		Expect(err).NotTo(HaveOccurred())
		return b
	}
}
