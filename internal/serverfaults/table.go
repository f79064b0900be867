package serverfaults

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

// changes are migrations that change what a prepared statement would answer.
var changes = []string{
	`ALTER TABLE worklease_leases ADD COLUMN IF NOT EXISTS note text`,
	`ALTER TABLE worklease_leases ALTER COLUMN holder_id TYPE varchar(2000)`,
	`ALTER TABLE worklease_leases ALTER COLUMN prev_holder_id TYPE varchar(2000)`,
	`ALTER TABLE worklease_leases ALTER COLUMN prev_exit_mode TYPE varchar(20)`,
	`ALTER TABLE worklease_leases ALTER COLUMN exit_mode TYPE varchar(20)`,
	`ALTER TABLE worklease_leases ALTER COLUMN expires_at TYPE timestamptz(6)`,
	`ALTER TABLE worklease_leases DROP COLUMN IF EXISTS note`,
	`ALTER TABLE worklease_leases ALTER COLUMN holder_id TYPE text`,
	`ALTER TABLE worklease_leases ALTER COLUMN prev_holder_id TYPE text`,
	`ALTER TABLE worklease_leases ALTER COLUMN prev_exit_mode TYPE text`,
	`ALTER TABLE worklease_leases ALTER COLUMN exit_mode TYPE text`,
	`ALTER TABLE worklease_leases ALTER COLUMN expires_at TYPE timestamptz`,
}

func (s *subject) tableSpecs() {
	It("31b: under load fails no call, although its statements are prepared", limit, func(ctx SpecContext) {
		db := s.database()
		b := on(db)
		db.SetMaxOpenConns(6)
		a, rival := holder(b, "a", time.Minute), holder(b, "b", time.Minute)

		load, stop := context.WithCancel(ctx)
		var callers sync.WaitGroup
		defer callers.Wait()
		defer stop()
		for n := range 4 {
			callers.Go(func() {
				defer GinkgoRecover()
				for load.Err() == nil {
					id := fmt.Sprintf("work-%d", n)
					token := acquire(ctx, a, id)
					Expect(read(ctx, a, token).PrevHolderID).To(BeElementOf("", "a"))
					_, err := rival.Acquire(ctx, id)
					Expect(err).To(MatchError(worklease.ErrLeaseHeld))
					Expect(a.Renew(ctx, token)).To(Succeed())
					Expect(a.Checkpoint(ctx, token, []byte("state"))).To(Succeed())
					Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
					Expect(a.Renew(ctx, token)).To(MatchError(worklease.ErrLeaseExpired))
					_, err = b.Sweep(ctx, worklease.SweepOptions{Retention: time.Hour})
					Expect(err).NotTo(HaveOccurred())
				}
			})
		}
		for _, change := range changes {
			run(ctx, db, change)
			pause(50 * time.Millisecond)
		}
	})
}
