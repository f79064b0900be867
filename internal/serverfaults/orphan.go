package serverfaults

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func (s *subject) orphanSpecs() {
	It("28a: that locks a row costs that lease at its window, and no other", limit, func(ctx SpecContext) {
		db := s.database()
		b := on(db)
		a := holder(b, "a", ttl)
		_, renewCtx := renewing(ctx, a, work)
		_, other := renewing(ctx, a, "other")
		run(ctx, s.open(s.dsn), `
			BEGIN;
			SELECT FROM worklease_leases WHERE work_id = 'work' FOR UPDATE;
			PREPARE TRANSACTION 'orphan'`)

		expectWindowCloses(renewCtx)
		expectRenewed(other, ttl)
		acquire(ctx, a, "new")

		next := holder(b, "b", ttl)
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := next.Acquire(short, work)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(time.Since(start)).To(BeNumerically("<", 300*time.Millisecond+margin))

		run(ctx, db, `ROLLBACK PREPARED 'orphan'`)
		Expect(waitFor(ctx, next, work).PrevHolderID).To(Equal("a"))
	})
}
