package pgtest_test

import (
	"database/sql"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// The shared server comes up here, so that no spec is charged with it.
var _ = BeforeSuite(func() { pgtest.Database() })

var _ = Describe("Database", func() {
	BeforeEach(noLeaks)

	It("gives each caller a database without tables", func(ctx SpecContext) {
		first, second := pgtest.Database(), pgtest.Database()
		Expect(second).NotTo(Equal(first))

		pgtest.OpenWithSchema(first)
		Expect(tables(ctx, pgtest.Open(first))).To(Equal(1))
		Expect(tables(ctx, pgtest.Open(second))).To(BeZero())
	}, SpecTimeout(bound))

	It("has the schema in the schema that is named, whatever its name", func(ctx SpecContext) {
		db := pgtest.Open(pgtest.Database())
		pgtest.ApplySchema(db, `Odd "name's`)
		var schema string
		row := db.QueryRowContext(ctx, "SELECT schemaname FROM pg_tables WHERE tablename = 'worklease_leases'")
		Expect(row.Scan(&schema)).To(Succeed())
		Expect(schema).To(Equal(`Odd "name's`))
	}, SpecTimeout(bound))
})

var _ = Describe("A database of one spec", Ordered, func() {
	var dsn string
	BeforeEach(noLeaks)

	It("is there while the spec runs", func(ctx SpecContext) {
		dsn = pgtest.Database()
		Expect(pgtest.Open(dsn).PingContext(ctx)).To(Succeed())
	}, SpecTimeout(bound))

	It("is gone in the next one", func(ctx SpecContext) {
		Expect(pgtest.Open(dsn).PingContext(ctx)).To(MatchError(ContainSubstring("does not exist")))
	}, SpecTimeout(bound))
})

func tables(ctx SpecContext, db *sql.DB) (n int) {
	GinkgoHelper()
	row := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
	Expect(row.Scan(&n)).To(Succeed())
	return n
}
