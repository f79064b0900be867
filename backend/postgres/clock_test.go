package postgres_test

import (
	"context"
	"database/sql"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// stopped is a clock that specs set, in place of the server's for sessions whose
// search_path names its schema before pg_catalog.
const stopped = `
CREATE TABLE clock (now timestamptz NOT NULL);
INSERT INTO clock VALUES ('2026-01-01 12:00:00+00');
CREATE FUNCTION statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT now FROM clock'`

var _ = Describe("The server's clock, stopped", func() {
	var (
		clock *sql.DB
		b     *postgres.Backend
	)
	BeforeEach(func(ctx SpecContext) {
		dsn := ownSchema(true)
		clock = pgtest.Open(dsn)
		_, err := clock.ExecContext(ctx, stopped)
		Expect(err).NotTo(HaveOccurred())
		var schema string
		Expect(clock.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema)).To(Succeed())
		b = on(pgtest.Open(with(dsn, "search_path", schema+",pg_catalog")))
	})

	advance := func(ctx context.Context, d time.Duration) {
		GinkgoHelper()
		_, err := clock.ExecContext(ctx, `UPDATE clock SET now = now + $1::bigint * interval '1 microsecond'`, d.Microseconds())
		Expect(err).NotTo(HaveOccurred())
	}

	// take is what somebody else is told.
	take := func(ctx context.Context) error {
		_, err := b.Acquire(ctx, work, "b", ttl)
		return err
	}

	It("4a: at its very expiry a lease cannot be renewed or released but acquired", SpecTimeout(bound), func(ctx SpecContext) {
		a := acquire(ctx, b, work, "a")
		advance(ctx, ttl)
		Expect(b.Renew(ctx, a, ttl)).To(MatchError(backend.ErrLeaseExpired))
		Expect(b.Release(ctx, a, backend.ExitFinished)).To(MatchError(backend.ErrLeaseExpired))
		Expect(take(ctx)).To(Succeed())
	})

	It("4a: at its very expiry a lease can be acquired and not be renewed any more", SpecTimeout(bound), func(ctx SpecContext) {
		a := acquire(ctx, b, work, "a")
		advance(ctx, ttl)
		Expect(take(ctx)).To(Succeed())
		Expect(b.Renew(ctx, a, ttl)).To(MatchError(backend.ErrFenced))
	})

	It("4a: a microsecond earlier a lease can be renewed but not acquired", SpecTimeout(bound), func(ctx SpecContext) {
		a := acquire(ctx, b, work, "a")
		advance(ctx, ttl-time.Microsecond)
		Expect(take(ctx)).To(Equal(&backend.HeldError{HolderID: "a", Remaining: time.Microsecond}))
		Expect(b.Renew(ctx, a, ttl)).To(Succeed())
	})

	It("is the one that the record tells", SpecTimeout(bound), func(ctx SpecContext) {
		Expect(acquire(ctx, b, work, "a").ExpiresAt).To(BeTemporally("==", time.Date(2026, 1, 1, 12, 1, 0, 0, time.UTC)))
	})

	DescribeTable("moves an expiry to the ttl from now, and never back when it goes back itself",
		func(ctx SpecContext, extend func(context.Context, backend.LeaseRecord) error) {
			a := acquire(ctx, b, work, "a")
			advance(ctx, ttl/2)
			Expect(extend(ctx, a)).To(Succeed())
			advance(ctx, -ttl/4)
			Expect(extend(ctx, a)).To(Succeed())
			advance(ctx, ttl/4+ttl-time.Microsecond)
			Expect(take(ctx)).To(MatchError(backend.ErrLeaseHeld))
			advance(ctx, time.Microsecond)
			Expect(take(ctx)).To(Succeed())
		},
		Entry("Renew", SpecTimeout(bound), func(ctx context.Context, a backend.LeaseRecord) error {
			return b.Renew(ctx, a, ttl)
		}),
		Entry("Checkpoint", SpecTimeout(bound), func(ctx context.Context, a backend.LeaseRecord) error {
			return b.Checkpoint(ctx, a, []byte("half"), ttl)
		}),
	)

	It("29a: lets Sweep take what was updated longer ago than the retention, not at it", SpecTimeout(bound), func(ctx SpecContext) {
		a := acquire(ctx, b, work, "a")
		advance(ctx, ttl/2)
		Expect(b.Release(ctx, a, backend.ExitRetired)).To(Succeed())
		advance(ctx, time.Hour)
		Expect(b.Sweep(ctx, backend.SweepOptions{Retention: time.Hour})).To(BeZero())
		advance(ctx, time.Microsecond)
		Expect(b.Sweep(ctx, backend.SweepOptions{Retention: time.Hour})).To(Equal(int64(1)))
	})
})
