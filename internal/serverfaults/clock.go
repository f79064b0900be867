package serverfaults

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

func (s *subject) clockSpecs() {
	DescribeTable("that is off changes nothing",
		func(ctx SpecContext, off string) {
			// The server's own clock stands in for the client's: all that can be seen
			// of either is what they differ by.
			run(ctx, s.database(), `CREATE SCHEMA skewed`, `
				CREATE FUNCTION skewed.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
				AS $$ SELECT pg_catalog.statement_timestamp() + interval '`+off+`' $$`)
			db := s.open(with(s.dsn, "search_path", "skewed,pg_catalog,public"))

			b := on(db)
			a := holder(b, "a", ttl)
			token, renewCtx := renewing(ctx, a, work)
			Expect(token.ExpiresAt()).NotTo(BeTemporally("~", time.Now(), 30*time.Minute))
			expectRenewed(renewCtx, ttl)
			expectRenewed(renewCtx, ttl)
			_, err := holder(b, "b", ttl).Acquire(ctx, work)
			Expect(err).To(MatchError(worklease.ErrLeaseHeld))
			Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
			acquire(ctx, holder(b, "b", ttl), work)

			_, err = b.Acquire(ctx, "dead", "a", -10*ttl)
			Expect(err).NotTo(HaveOccurred())
			acquire(ctx, holder(b, "b", ttl), "dead")
		},
		Entry("4b: an hour behind the client's", limit, "-1 hour"),
		Entry("4b: an hour ahead of the client's", limit, "1 hour"),
	)

	It("4c: that a lease loses its expiry to ends it at once, as expired for all", limit, func(ctx SpecContext) {
		db := s.database()
		b := on(db)
		a := holder(b, "a", time.Minute)
		token := acquire(ctx, a, work)
		renewCtx, stop := a.StartRenewal(ctx, token, worklease.WithRenewalInterval(200*time.Millisecond))
		defer stop()
		run(ctx, db, `UPDATE worklease_leases SET expires_at = statement_timestamp() - interval '1 second'`)

		Eventually(renewCtx.Done()).WithTimeout(200*time.Millisecond + margin).Should(BeClosed())
		Expect(context.Cause(renewCtx)).To(And(
			MatchError(worklease.ErrLeaseWindowExhausted), MatchError(worklease.ErrLeaseExpired)))
		Expect(a.Renew(ctx, token)).To(MatchError(worklease.ErrLeaseExpired))
		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(MatchError(worklease.ErrLeaseExpired))

		next := holder(b, "b", ttl)
		Expect(read(ctx, next, acquire(ctx, next, work)).PrevExit).To(Equal(worklease.ExitExpired))
	})
}
