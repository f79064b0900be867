package serverfaults

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/proxy"
	"github.com/aetomala/worklease/worker"
)

func (s *subject) connectionSpecs() {
	It("1d: that went dead silently costs no lease while the server is well", limit, func(ctx SpecContext) {
		s.database()
		p := proxy.Start(address(s.dsn))
		_, renewCtx := renewing(ctx, holder(on(s.open(through(s.dsn, p.Addr()))), "a", ttl), work)
		p.Silence()
		expectRenewed(renewCtx, ttl)
		expectRenewed(renewCtx, ttl)
	})

	It("1d: that went dead silently and is the only one costs the lease at its window", limit, func(ctx SpecContext) {
		s.database()
		p := proxy.Start(address(s.dsn))
		db := s.open(through(s.dsn, p.Addr()))
		db.SetMaxOpenConns(1)
		_, renewCtx := renewing(ctx, holder(on(db), "a", ttl), work)
		p.Silence()
		expectWindowCloses(renewCtx)
	})

	It("1d: that went dead silently costs no exit", limit, func(ctx SpecContext) {
		s.database()
		p := proxy.Start(address(s.dsn))
		l := holder(on(s.open(through(s.dsn, p.Addr()))), "a", time.Minute)
		r, err := worker.NewRunner(worker.RunnerConfig{
			Lease: l,
			WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				p.Silence()
				return []byte("state"), nil
			},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Run(ctx, work)).To(Succeed())
		Expect(read(ctx, l, acquire(ctx, l, work))).To(Equal(worklease.Checkpoint{
			State: []byte("state"), PrevExit: worklease.ExitFinished, PrevHolderID: "a",
		}))
	})
}
