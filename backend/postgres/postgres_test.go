package postgres_test

import (
	"database/sql"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

func TestPostgres(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "backend/postgres")
}

// oddSchema is outside the search_path, and needs its quotes.
const oddSchema = `Odd "schema's`

var (
	dsn string
	db  *sql.DB
)

var _ = BeforeSuite(func() {
	dsn = pgtest.Database()
	db = pgtest.OpenWithSchema(dsn)
	db.SetMaxIdleConns(64)
	db.SetMaxOpenConns(64)
	pgtest.ApplySchema(db, oddSchema)
})

// open makes a backend on the suite's database.
func open(opts ...postgres.Option) *postgres.Backend {
	GinkgoHelper()
	b, err := postgres.New(db, opts...)
	Expect(err).NotTo(HaveOccurred())
	return b
}

var _ = Describe("PostgreSQL through lib/pq", func() {
	Describe("as it comes", conformance.RunSuite(func() backend.Backend { return open() }))
	Describe("in another schema, behind a transaction pooler", conformance.RunSuite(func() backend.Backend {
		return open(postgres.WithSchema(oddSchema), postgres.WithTransactionPooler())
	}))

	theDB := func() *sql.DB { return db }
	Describe("in a transaction", pgtest.TransactionSuite(func() backend.Backend { return open() }, theDB))
	Describe("in a transaction, in another schema", pgtest.TransactionSuite(func() backend.Backend {
		return open(postgres.WithSchema(oddSchema))
	}, theDB))
	Describe("in a transaction behind a transaction pooler", pgtest.TransactionSuite(func() backend.Backend {
		return open(postgres.WithTransactionPooler())
	}, theDB))
})
