package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
	"github.com/aetomala/worklease/worker"
)

var _ = Describe("A reply that was lost after the server had executed", func() {
	var (
		l    *line
		over *sql.DB
		b    *postgres.Backend
	)
	BeforeEach(func() {
		l, over = openLine(ownSchema(true))
		b = on(over)
	})

	Context("by the end of the connection, so that database/sql sends again", func() {
		It("6c: an Acquire that its own first send refuses is no verdict", func(ctx SpecContext) {
			l.lose(bind, "acquire", io.EOF)
			_, err := b.Acquire(ctx, work, "a", ttl)
			expectNoVerdict(err)
			Expect(l.count(bind, "acquire")).To(Equal(2))

			_, err = b.Acquire(ctx, work, "b", ttl)
			Expect(err).To(MatchError(backend.ErrLeaseHeld))
		}, SpecTimeout(bound))

		It("6c: an Acquire is no verdict either where somebody else holds the lease", func(ctx SpecContext) {
			acquire(ctx, b, work, "z")
			l.lose(bind, "acquire", io.EOF)
			_, err := b.Acquire(ctx, work, "a", ttl)
			expectNoVerdict(err)
		}, SpecTimeout(bound))

		It("6c: an Acquire that took the lease with its second send has it", func(ctx SpecContext) {
			l.lose(bind, "acquire", io.EOF)
			_, err := b.Acquire(ctx, work, "a", -ttl) // the first one's lapses at once
			Expect(err).NotTo(HaveOccurred())
			Expect(l.count(bind, "acquire")).To(Equal(2))
		}, SpecTimeout(bound))

		It("6b: a Release whose row shows it is recorded", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			l.lose(bind, "release", io.EOF)
			Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
			Expect(l.count(bind, "release")).To(Equal(2))

			next := acquire(ctx, b, work, "b")
			Expect(read(ctx, b, next)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitFinished, PrevHolderID: "a"}))
		}, SpecTimeout(bound))

		It("a Release of a lease that was left in another way stays refused", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			Expect(b.Release(ctx, rec, backend.ExitAbandoned)).To(Succeed())
			l.lose(bind, "release", io.EOF)
			Expect(b.Release(ctx, rec, backend.ExitFinished)).To(MatchError(backend.ErrLeaseExpired))
		}, SpecTimeout(bound))

		It("a Forget that finds no row has removed it", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			l.lose(bind, "forget", io.EOF)
			Expect(b.Forget(ctx, rec)).To(Succeed())
			Expect(l.count(bind, "forget")).To(Equal(2))
			Expect(read(ctx, b, acquire(ctx, b, work, "b"))).To(Equal(backend.Checkpoint{}))
		}, SpecTimeout(bound))

		It("a Forget that a successor refuses stays refused", func(ctx SpecContext) {
			rec, err := b.Acquire(ctx, work, "a", -ttl)
			Expect(err).NotTo(HaveOccurred())
			acquire(ctx, b, work, "b")
			l.lose(bind, "forget", io.EOF)
			Expect(b.Forget(ctx, rec)).To(MatchError(backend.ErrFenced))
		}, SpecTimeout(bound))

		It("a Restore that finds no row has put it back", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			l.lose(bind, "restore", io.EOF)
			Expect(b.Restore(ctx, rec)).To(Succeed())
			Expect(read(ctx, b, acquire(ctx, b, work, "b"))).To(Equal(backend.Checkpoint{}))
		}, SpecTimeout(bound))

		It("a ForceRelease that finds another token has fenced the holder", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			l.lose(bind, "force", io.EOF)
			Expect(b.ForceRelease(ctx, work, rec.FencingToken)).To(Succeed())
			Expect(l.count(bind, "force")).To(Equal(2))
			Expect(b.Checkpoint(ctx, rec, nil, ttl)).To(MatchError(backend.ErrFenced))
			Expect(read(ctx, b, acquire(ctx, b, work, "b"))).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
		}, SpecTimeout(bound))

		It("a ForceRelease of a lease that was left stays refused", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
			l.lose(bind, "force", io.EOF)
			Expect(b.ForceRelease(ctx, work, rec.FencingToken)).To(MatchError(backend.ErrLeaseExpired))
		}, SpecTimeout(bound))

		It("6a: a Renew and a Checkpoint are done twice, to the same end", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			l.lose(bind, "renew", io.EOF)
			Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
			l.lose(bind, "checkpoint", io.EOF)
			Expect(b.Checkpoint(ctx, rec, []byte("new"), ttl)).To(Succeed())
			Expect(l.count(bind, "renew")).To(Equal(2))
			Expect(l.count(bind, "checkpoint")).To(Equal(2))
			Expect(read(ctx, b, rec).State).To(Equal([]byte("new")))
		}, SpecTimeout(bound))
	})

	Context("by a reset, after which nothing is sent again", func() {
		It("a ForceRelease fails without a verdict, and says that the lease has moved on when made again", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			l.lose(bind, "force", errReset)
			expectNoVerdict(b.ForceRelease(ctx, work, rec.FencingToken))
			Expect(b.ForceRelease(ctx, work, rec.FencingToken)).To(MatchError(backend.ErrFenced))
		}, SpecTimeout(bound))

		It("6c: an Acquire is no verdict, and its lease lapses", func(ctx SpecContext) {
			l.lose(bind, "acquire", errReset)
			_, err := b.Acquire(ctx, work, "a", time.Second)
			expectNoVerdict(err)
			Expect(err).To(MatchError(syscall.ECONNRESET))
			Expect(b.Transient(err)).To(BeTrue())
			Eventually(func() error {
				_, err := b.Acquire(ctx, work, "b", ttl)
				return err
			}).WithTimeout(2 * time.Second).Should(Succeed())
		}, SpecTimeout(bound))

		It("6a: a Renew and a Checkpoint fail without a verdict, and succeed when made again", func(ctx SpecContext) {
			rec := acquire(ctx, b, work, "a")
			l.lose(bind, "renew", errReset)
			expectNoVerdict(b.Renew(ctx, rec, ttl))
			Expect(b.Renew(ctx, rec, ttl)).To(Succeed())

			l.lose(bind, "checkpoint", errReset)
			expectNoVerdict(b.Checkpoint(ctx, rec, []byte("new"), ttl))
			Expect(read(ctx, b, rec).State).To(Equal([]byte("new")))
			Expect(b.Checkpoint(ctx, rec, []byte("newer"), ttl)).To(Succeed())
		}, SpecTimeout(bound))

		It("6b: a Runner's Release was recorded, and Run says so", func(ctx SpecContext) {
			lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: "a"})
			Expect(err).NotTo(HaveOccurred())
			r, err := worker.NewRunner(worker.RunnerConfig{
				Lease: lease,
				WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
					l.lose(bind, "release", errReset)
					return []byte("new"), nil
				},
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Run(ctx, work)).To(Succeed())
			Expect(read(ctx, b, acquire(ctx, b, work, "b"))).To(Equal(backend.Checkpoint{
				State: []byte("new"), PrevExit: backend.ExitFinished, PrevHolderID: "a",
			}))
		}, SpecTimeout(bound))
	})

	It("is an error without a verdict where it was a commit's behind a pooler", func(ctx SpecContext) {
		b := on(over, postgres.WithTransactionPooler())
		rec := acquire(ctx, b, work, "a")
		l.lose(query, "COMMIT", io.EOF)
		err := b.Release(ctx, rec, backend.ExitFinished)
		expectNoVerdict(err)
		Expect(b.Transient(err)).To(BeTrue())
		Expect(read(ctx, b, acquire(ctx, b, work, "b")).PrevExit).To(Equal(backend.ExitFinished))
	}, SpecTimeout(bound))
})

var _ = Describe("The happy path", func() {
	It("takes one round trip for each operation", func(ctx SpecContext) {
		l, over := openLine(ownSchema(true))
		b, held := on(over), "held"
		acquire(ctx, b, held, "z")

		var rec backend.LeaseRecord
		steps := []struct {
			name string
			do   func() error
		}{
			{"acquire", func() (err error) { rec, err = b.Acquire(ctx, work, "a", ttl); return err }},
			{"acquire", func() error {
				_, err := b.Acquire(ctx, held, "a", ttl)
				Expect(err).To(MatchError(backend.ErrLeaseHeld))
				return nil
			}},
			{"read", func() error { _, err := b.ReadCheckpoint(ctx, rec); return err }},
			{"renew", func() error { return b.Renew(ctx, rec, ttl) }},
			{"checkpoint", func() error { return b.Checkpoint(ctx, rec, []byte("state"), ttl) }},
			{"release", func() error { return b.Release(ctx, rec, backend.ExitRetired) }},
			{"forget", func() error { return b.Forget(ctx, rec) }},
			{"acquire", func() (err error) { rec, err = b.Acquire(ctx, work, "a", ttl); return err }},
			{"restore", func() error { return b.Restore(ctx, rec) }},
			{"sweep", func() error { _, err := b.Sweep(ctx, backend.SweepOptions{Retention: time.Hour}); return err }},
			{"acquire", func() (err error) { rec, err = b.Acquire(ctx, work, "a", ttl); return err }},
			{"force", func() error { return b.ForceRelease(ctx, work, rec.FencingToken) }},
		}
		for _, s := range steps { // prepares each
			Expect(s.do()).To(Succeed(), s.name)
		}
		for _, s := range steps {
			l.watch(nil)
			Expect(s.do()).To(Succeed(), s.name)
			Expect(l.trips()).To(Equal(1), s.name)
			Expect(l.count(bind, s.name)).To(Equal(1), s.name)
		}
	}, SpecTimeout(bound))

	It("costs a read and nothing else where the lease is held", func(ctx SpecContext) {
		noLeaks()
		// Nobody but this spec writes on this server, but the server may.
		quiet := pgtest.Start(pgtest.Options{Config: []string{
			"autovacuum = off", "wal_level = minimal", "max_wal_senders = 0",
		}})
		over := pgtest.OpenWithSchema(quiet.DSN())
		b := on(over)
		acquire(ctx, b, work, "z")
		attempts := func(n int) {
			for range n {
				if _, err := b.Acquire(ctx, work, "a", ttl); !errors.Is(err, backend.ErrLeaseHeld) {
					Fail(fmt.Sprint("not refused: ", err))
				}
			}
		}
		attempts(100) // Reading a page for the first time may write to it.

		start := footprint(ctx, over)
		written := make([]int64, 20)
		for window := range written {
			before := footprint(ctx, over)
			attempts(1000)
			written[window] = footprint(ctx, over).log - before.log
		}
		end := footprint(ctx, over)
		Expect(end.transaction).To(Equal(start.transaction))
		Expect(end.token).To(Equal(start.token))
		slices.Sort(written)
		Expect(written[len(written)/2]).To(BeZero(), "bytes of log in each window: %v", written)
	}, SpecTimeout(2*bound))
})

// left is all that a write leaves behind.
type left struct{ log, transaction, token int64 }

func footprint(ctx context.Context, db *sql.DB) (f left) {
	GinkgoHelper()
	Expect(db.QueryRowContext(ctx, `
		SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
		       pg_snapshot_xmax(pg_current_snapshot())::text::bigint, last_value
		FROM worklease_fencing_seq`).Scan(&f.log, &f.transaction, &f.token)).To(Succeed())
	return f
}
