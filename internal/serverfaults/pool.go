package serverfaults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

func (s *subject) poolSpecs() {
	It("23b: that the application keeps costs the lease at its window, and later calls work", limit, func(ctx SpecContext) {
		db := s.database()
		db.SetMaxOpenConns(1)
		a := holder(on(db), "a", ttl)
		_, renewCtx := renewing(ctx, a, work)
		kept, err := db.Conn(ctx)
		Expect(err).NotTo(HaveOccurred())
		from := time.Now()

		expectWindowCloses(renewCtx)
		pause(time.Until(from.Add(2 * ttl)))
		Expect(kept.Close()).To(Succeed())
		token := acquire(ctx, a, work)
		Expect(read(ctx, a, token).PrevExit).To(Equal(worklease.ExitExpired))
		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
	})
}
