package serverfaults

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

func (s *subject) sessionSpecs() {
	It("19a: between calls costs the next one a try at most", limit, func(ctx SpecContext) {
		db := s.database()
		admin := s.open(s.dsn)
		db.SetMaxIdleConns(1)
		b := on(db)
		a := holder(b, "a", time.Minute)
		token := acquire(ctx, a, work)
		// lib/pq and database/sql hide that the connection had ended, pgx says so once.
		failures := 0
		again := func(call func() error) {
			GinkgoHelper()
			terminate(ctx, admin)
			err := call()
			if err != nil {
				failures++
				expectNoVerdict(err)
				Expect(b.Transient(err)).To(BeTrue(), "%v", err)
				err = call()
			}
			Expect(err).NotTo(HaveOccurred())
		}
		for range 10 {
			again(func() error { return a.Renew(ctx, token) })
			again(func() error { return a.Checkpoint(ctx, token, []byte("state")) })
			again(func() error { _, err := a.ReadCheckpoint(ctx, token); return err })
		}
		again(func() error { return a.Release(ctx, token, worklease.ExitFinished) })
		again(func() error { _, err := a.Acquire(ctx, work); return err })
		AddReportEntry("failed calls, of 32", fmt.Sprint(failures))
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
