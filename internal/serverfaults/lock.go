package serverfaults

import (
	"context"
	"database/sql"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

func (s *subject) lockSpecs() {
	It("22a: for less than the window costs no lease", limit, func(ctx SpecContext) {
		db := s.database()
		a := holder(on(db), "a", ttl)
		_, renewCtx := renewing(ctx, a, work)
		_, other := renewing(ctx, a, "other") // in the same batch
		unlock := lock(ctx, db)
		// Past the moment when the renewal was due, and some time short of the end.
		Eventually(func() time.Duration { return time.Until(window(renewCtx)) }).WithTimeout(ttl).
			Should(BeNumerically("<", ttl/4))
		unlock()
		expectRenewed(renewCtx, ttl)
		expectRenewed(other, ttl)
	})

	It("22a: for longer costs that lease at its window, and no other", limit, func(ctx SpecContext) {
		db := s.database()
		b := on(db)
		a := holder(b, "a", ttl)
		_, renewCtx := renewing(ctx, a, work)
		_, other := renewing(ctx, a, "other")
		unlock := lock(ctx, db)
		defer unlock()

		expectWindowCloses(renewCtx)
		expectRenewed(other, ttl)
		unlock()
		next := holder(b, "b", ttl)
		Expect(waitFor(ctx, next, work).PrevHolderID).To(Equal("a"))
	})

	It("22b: longer than a statement may take is transient", limit, func(ctx SpecContext) {
		db := s.database()
		slow := s.open(with(s.dsn, "statement_timeout", "50"))
		b, events := on(slow), &recorder.Recorder{}
		a := observed(b, "a", ttl, events)
		token, renewCtx := renewing(ctx, a, work)
		unlock := lock(ctx, db)
		defer unlock()

		err := a.Renew(ctx, token)
		expectNoVerdict(err)
		Expect(err).NotTo(MatchError(context.DeadlineExceeded))
		Expect(stateOf(err)).To(Equal("57014"))
		Expect(b.Transient(err)).To(BeTrue())
		Eventually(func() int { return failed(events) }).WithTimeout(ttl).Should(BeNumerically(">=", 3))
		unlock()
		expectRenewed(renewCtx, ttl)
	})
}

// lock locks the row of work as somebody else's transaction would, until unlock.
func lock(ctx context.Context, db *sql.DB) (unlock func()) {
	GinkgoHelper()
	tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
	Expect(err).NotTo(HaveOccurred())
	_, err = tx.ExecContext(ctx, `SELECT FROM worklease_leases WHERE work_id = $1 FOR UPDATE`, work)
	Expect(err).NotTo(HaveOccurred())
	return func() { _ = tx.Rollback() } // done twice by some
}

// waitFor acquires workID within a TTL and reads what was left.
func waitFor(ctx context.Context, l worklease.Lease, workID string) worklease.Checkpoint {
	GinkgoHelper()
	soon, cancel := context.WithTimeout(ctx, ttl+margin)
	defer cancel()
	token, err := l.Acquire(soon, workID, worklease.WithWaitForLease(), worklease.WithPollInterval(50*time.Millisecond))
	Expect(err).NotTo(HaveOccurred())
	return read(ctx, l, token)
}

// failed counts the renewals that failed.
func failed(events *recorder.Recorder) int {
	n := 0
	for _, e := range recorder.All[worklease.RenewEvent](events) {
		if e.Err != nil {
			n++
		}
	}
	return n
}
