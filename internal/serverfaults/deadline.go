package serverfaults

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

// attempts is how many acquisitions are cut short in each spec.
const attempts = 1500

func (s *subject) deadlineSpecs() {
	var (
		db   *sql.DB
		a, b worklease.Lease
	)
	BeforeEach(func() {
		db = s.database()
		db.SetMaxOpenConns(8)
		a, b = holder(on(db), "a", time.Minute), holder(on(db), "b", time.Minute)
	})

	// cutShort acquires the id with a deadline of 0.2 to 3.2 ms and releases what
	// it got, so that a lease that is left can only be one that nobody was given.
	cutShort := func(ctx context.Context, n int, id string, mode worklease.ExitMode) {
		GinkgoHelper()
		short, cancel := context.WithTimeout(ctx, 200*time.Microsecond+time.Duration(n%100)*30*time.Microsecond)
		defer cancel()
		token, err := a.Acquire(short, id)
		if err != nil {
			Expect(token).To(Equal(worklease.Token{}))
			Expect(err).To(MatchError(context.DeadlineExceeded))
			return
		}
		Expect(a.Release(ctx, token, mode)).To(Succeed())
	}

	// successor acquires the id as another holder within a second.
	successor := func(ctx context.Context, id string) worklease.Checkpoint {
		GinkgoHelper()
		soon, cancel := context.WithTimeout(ctx, time.Second+margin)
		defer cancel()
		token, err := b.Acquire(soon, id, worklease.WithWaitForLease(), worklease.WithPollInterval(20*time.Millisecond))
		Expect(err).NotTo(HaveOccurred())
		return read(ctx, b, token)
	}

	It("5a: that cuts an Acquire short leaves no lease behind", limit, func(ctx SpecContext) {
		for n := range attempts {
			id := fmt.Sprintf("fresh-%d", n)
			cutShort(ctx, n, id, worklease.ExitFinished)
			Expect(successor(ctx, id).PrevExit).To(BeElementOf(worklease.ExitNone, worklease.ExitFinished))
		}
	})

	It("5a: that cuts an Acquire of retired work short leaves it retired", limit, func(ctx SpecContext) {
		run(ctx, db, fmt.Sprintf(`
			INSERT INTO worklease_leases (work_id, holder_id, expires_at, exit_mode)
			SELECT 'retired-' || n, 'first', statement_timestamp() - interval '1 hour', 'retired'
			FROM generate_series(0, %d) AS n`, attempts-1))
		for n := range attempts {
			id := fmt.Sprintf("retired-%d", n)
			cutShort(ctx, n, id, worklease.ExitRetired)
			Expect(successor(ctx, id).PrevExit).To(Equal(worklease.ExitRetired))
		}
	})
}
