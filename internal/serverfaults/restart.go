package serverfaults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

func (s *subject) restartSpecs() {
	It("19b: within the window costs no lease", limit, func(ctx SpecContext) {
		const ttl = 8 * time.Second // a restart takes a second or two
		a := holder(on(s.database()), "a", ttl)
		token, renewCtx := renewing(ctx, a, work)
		s.server.Stop(pgtest.Immediate)
		s.server.Start()
		expectRenewed(renewCtx, ttl)
		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
	})

	It("19b: after the window costs the lease then, and no token falls", limit, func(ctx SpecContext) {
		db := s.database()
		a := holder(on(db), "a", ttl)
		token, renewCtx := renewing(ctx, a, work)
		other := acquire(ctx, a, "other")
		s.server.Stop(pgtest.Immediate)
		expectWindowCloses(renewCtx)

		s.server.Start()
		next := holder(on(db), "b", ttl)
		for _, id := range []string{work, "new"} {
			later, err := next.Acquire(ctx, id, worklease.WithWaitForLease(), worklease.WithPollInterval(50*time.Millisecond))
			Expect(err).NotTo(HaveOccurred())
			Expect(later.FencingToken()).To(BeNumerically(">", max(token.FencingToken(), other.FencingToken())))
		}
	})
}
