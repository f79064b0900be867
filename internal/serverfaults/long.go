//go:build long

package serverfaults

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

const long = SpecTimeout(5 * time.Minute)

// longSpecs are those of the build tag long: what takes a minute on a busy machine.
func (s *subject) longSpecs() {
	Context("handoffs", s.handoffLongSpecs)

	It("18a: a checkpoint of 100 MB is stored whole or refused whole, and costs no lease", long, Label("long"), func(ctx SpecContext) {
		const ttl = 10 * time.Second
		db := s.database()
		a := holder(on(db), "a", ttl)
		token, renewCtx := renewing(ctx, a, work)
		old := []byte("old")
		Expect(a.Checkpoint(ctx, token, old)).To(Succeed())

		state := make([]byte, 100<<20)
		rand.NewChaCha8([32]byte{1}).Read(state) //nolint:errcheck // It never fails.
		want := state
		if err := a.Checkpoint(ctx, token, state); err != nil {
			expectNoVerdict(err)
			want = old
			AddReportEntry("refused", err.Error())
		}
		// Not by Equal, which would print both.
		Expect(bytes.Equal(read(ctx, a, token).State, want)).To(BeTrue())
		Expect(renewCtx.Err()).NotTo(HaveOccurred())
		expectRenewed(renewCtx, ttl)
		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
	})

	It("18a: a checkpoint of more than 128 MiB is refused before it is sent", long, Label("long"), func(ctx SpecContext) {
		db := s.database()
		a := holder(on(db), "a", time.Minute)
		token := acquire(ctx, a, work)
		Expect(a.Checkpoint(ctx, token, []byte("old"))).To(Succeed())
		Expect(db.Close()).To(Succeed()) // whatever is sent now fails with another error

		err := a.Checkpoint(ctx, token, make([]byte, 128<<20+1))
		expectNoVerdict(err)
		Expect(err).To(MatchError(ContainSubstring("state of 134217729 bytes is larger than 134217728")))
	})

	Context("a sweep of 200,000 rows where no statement may take a second", func() {
		furnished := func(ctx context.Context) *worklease.Vacuum {
			GinkgoHelper()
			// Analyzed, as autovacuum does: without statistics each batch sorts them all.
			run(ctx, s.database(), `
				INSERT INTO worklease_leases (work_id, holder_id, expires_at, exit_mode, updated_at)
				SELECT 'work-' || n, 'a', past, 'retired', past
				FROM generate_series(1, 200000) AS n,
				     LATERAL (SELECT statement_timestamp() - interval '1 day' - n * interval '1 ms' AS past) AS p`,
				`ANALYZE worklease_leases`)
			v, err := worklease.NewVacuum(on(s.open(with(s.dsn, "statement_timeout", "1000"))), worklease.VacuumConfig{})
			Expect(err).NotTo(HaveOccurred())
			return v
		}
		opts := worklease.SweepOptions{Retention: time.Hour}

		It("29b: deletes them all, in batches", long, Label("long"), func(ctx SpecContext) {
			v := furnished(ctx)
			Expect(v.Sweep(ctx, opts)).To(Equal(int64(200000)))
			Expect(rows(ctx, s)).To(BeZero())
		})

		It("29b: tells what it has deleted so far when it is cancelled", long, Label("long"), func(ctx SpecContext) {
			v := furnished(ctx)
			swept, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				defer GinkgoRecover()
				Eventually(func() int { return rows(ctx, s) }).WithTimeout(time.Minute).Should(BeNumerically("<", 190000))
				cancel()
			}()
			n, err := v.Sweep(swept, opts)
			Expect(err).To(MatchError(context.Canceled))
			Expect(n).To(BeNumerically(">", 0))
			Expect(int(n) + rows(ctx, s)).To(Equal(200000))
		})
	})
}

// rows counts the rows that there are.
func rows(ctx context.Context, s *subject) (n int) {
	GinkgoHelper()
	db := s.open(s.dsn)
	Expect(db.QueryRowContext(ctx, `SELECT count(*) FROM worklease_leases`).Scan(&n)).To(Succeed())
	Expect(db.Close()).To(Succeed())
	return n
}
