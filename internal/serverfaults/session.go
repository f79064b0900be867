package serverfaults

import (
	"context"
	"database/sql"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

func (s *subject) sessionSpecs() {
	It("19a: between calls changes nothing for the next", limit, func(ctx SpecContext) {
		db := s.database()
		admin := s.open(s.dsn)
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		for range 10 {
			terminate(ctx, admin)
			Expect(a.Renew(ctx, token)).To(Succeed())
			terminate(ctx, admin)
			Expect(a.Checkpoint(ctx, token, []byte("state"))).To(Succeed())
			terminate(ctx, admin)
			Expect(read(ctx, a, token).State).To(Equal([]byte("state")))
		}
		terminate(ctx, admin)
		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
		terminate(ctx, admin)
		acquire(ctx, a, work)
	})

	It("19a: during calls gives no false verdict, and the lease lives", limit, func(ctx SpecContext) {
		db := s.database()
		admin := s.open(s.dsn)
		b := on(db)
		a := holder(b, "a", ttl)
		token, renewCtx := renewing(ctx, a, work)

		storm, calm := context.WithTimeout(ctx, 2*ttl)
		defer calm()
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				defer GinkgoRecover()
				for storm.Err() == nil {
					if err := a.Checkpoint(ctx, token, []byte("state")); err != nil {
						expectNoVerdict(err)
						Expect(b.Transient(err)).To(BeTrue(), "%v", err)
					}
				}
			})
		}
		for storm.Err() == nil {
			terminate(ctx, admin)
			pause(20 * time.Millisecond)
		}
		callers.Wait()
		Expect(renewCtx.Err()).NotTo(HaveOccurred())
		Expect(a.Renew(ctx, token)).To(Succeed())
		expectRenewed(renewCtx, ttl)
	})
}

// terminate ends all sessions of the database but its own.
func terminate(ctx context.Context, admin *sql.DB) {
	GinkgoHelper()
	run(ctx, admin, `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
}

// pause spaces out what a spec does to a server.
func pause(d time.Duration) { <-time.After(d) }
