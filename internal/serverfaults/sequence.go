package serverfaults

import (
	"database/sql"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
)

func (s *subject) sequenceSpecs() {
	var (
		db *sql.DB
		b  *postgres.Backend
	)
	BeforeEach(func() {
		db = s.database()
		b = on(db)
	})

	// Leases of no length, so that each acquisition takes over from the last.
	take := func(ctx SpecContext, b backend.Backend) backend.LeaseRecord {
		GinkgoHelper()
		rec, err := b.Acquire(ctx, work, "a", -time.Second)
		Expect(err).NotTo(HaveOccurred())
		return rec
	}

	It("24b: that sessions cache hands out tokens that rise all the same", limit, func(ctx SpecContext) {
		run(ctx, db, `ALTER SEQUENCE worklease_fencing_seq CACHE 20`)
		first, second := on(s.session(s.dsn)), on(s.session(s.dsn))
		var last uint64
		for range 50 {
			for _, session := range []backend.Backend{first, second} {
				rec := take(ctx, session)
				Expect(rec.FencingToken).To(BeNumerically(">", last))
				last = rec.FencingToken
			}
		}
	})

	It("24b: that has reached its end gives an error without a verdict", limit, func(ctx SpecContext) {
		last := take(ctx, b)
		run(ctx, db, `ALTER SEQUENCE worklease_fencing_seq MAXVALUE 100`, `SELECT setval('worklease_fencing_seq', 100)`)
		for _, id := range []string{work, "new"} {
			_, err := b.Acquire(ctx, id, "a", time.Minute)
			expectNoVerdict(err)
			Expect(stateOf(err)).To(Equal("2200H"), "%v", err)
		}
		run(ctx, db, `ALTER SEQUENCE worklease_fencing_seq NO MAXVALUE`)
		Expect(take(ctx, b).FencingToken).To(BeNumerically(">", last.FencingToken))
	})

	It("24b: that starts again from one hands out tokens that rise all the same", limit, func(ctx SpecContext) {
		run(ctx, db, `ALTER SEQUENCE worklease_fencing_seq CYCLE MAXVALUE 5`)
		var last uint64
		for range 12 {
			rec := take(ctx, b)
			Expect(rec.FencingToken).To(BeNumerically(">", last))
			last = rec.FencingToken
		}
	})

	It("24b: that is missing gives an error that names it", limit, func(ctx SpecContext) {
		take(ctx, b)
		run(ctx, db, `DROP SEQUENCE worklease_fencing_seq CASCADE`)
		for _, id := range []string{work, "new"} {
			_, err := b.Acquire(ctx, id, "a", time.Minute)
			expectNoVerdict(err)
			Expect(err).To(MatchError(ContainSubstring("worklease_fencing_seq")))
		}
	})
}

// session opens dsn for one connection alone.
func (s *subject) session(dsn string) *sql.DB {
	GinkgoHelper()
	db := s.open(dsn)
	db.SetMaxOpenConns(1)
	return db
}
