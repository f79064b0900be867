package baseline_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/lib/pq"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
	"github.com/aetomala/worklease/internal/testkit/wire"
	"github.com/aetomala/worklease/worker"
)

var _ = Describe("Round trips", Ordered, func() {
	const each = 20
	var (
		w *wire.Wire
		b *postgres.Backend
	)
	BeforeAll(func() {
		dsn := pgtest.Database()
		pgtest.ApplySchema(pgtest.Open(dsn), "")
		connector, err := pq.NewConnector(dsn)
		Expect(err).NotTo(HaveOccurred())
		w = &wire.Wire{}
		connector.Dialer(w.Dialer())
		db := sql.OpenDB(connector)
		DeferCleanup(db.Close)
		b, err = postgres.New(db)
		Expect(err).NotTo(HaveOccurred())
	})

	for _, o := range onPostgres(func() *postgres.Backend { return b }) {
		It("of "+o.name+" are as stored", func(ctx SpecContext) {
			Expect(o.do(ctx)).To(Succeed()) // prepares the statements
			before := w.Trips()
			for range each {
				Expect(o.do(ctx)).To(Succeed())
			}
			trips := int(w.Trips() - before)
			Expect(trips%each).To(BeZero(), "%d round trips in %d times", trips, each)
			expect("round trips: "+o.name, trips/each)
		}, SpecTimeout(bound))
	}
})

// onPostgres are operations of a backend that there is only when they run, each on
// a lease of its own, whose Acquire counts too.
func onPostgres(b func() *postgres.Backend) []operation {
	var acquired int
	after := func(do func(context.Context, backend.LeaseRecord) error) func(context.Context) error {
		return func(ctx context.Context) error {
			acquired++
			rec, err := b().Acquire(ctx, fmt.Sprint("work ", acquired), "a", ttl)
			if err != nil {
				return err
			}
			return do(ctx, rec)
		}
	}
	return []operation{
		{"postgres, Acquire", after(func(context.Context, backend.LeaseRecord) error { return nil })},
		{"postgres, Acquire, then Acquire where it is held", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			_, err := b().Acquire(ctx, rec.WorkID, "b", ttl)
			return unless(err, backend.ErrLeaseHeld)
		})},
		{"postgres, Acquire, then Renew", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			return b().Renew(ctx, rec, ttl)
		})},
		{"postgres, Acquire, then Renew where it is fenced", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			rec.HolderID = "b"
			return unless(b().Renew(ctx, rec, ttl), backend.ErrFenced)
		})},
		{"postgres, Acquire, then Checkpoint of 1 KB", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			return b().Checkpoint(ctx, rec, make([]byte, 1024), ttl)
		})},
		{"postgres, Acquire, then ReadCheckpoint", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			_, err := b().ReadCheckpoint(ctx, rec)
			return err
		})},
		{"postgres, Acquire, then Release", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			return b().Release(ctx, rec, backend.ExitFinished)
		})},
		{"postgres, Acquire, then Forget", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			return b().Forget(ctx, rec)
		})},
		{"postgres, Acquire, then RenewBatch of 500", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			verdicts, err := b().RenewBatch(ctx, slices.Repeat([]backend.LeaseRecord{rec}, 500), ttl)
			return errors.Join(append(verdicts, err)...)
		})},
		{"postgres, Acquire, then Restore", after(func(ctx context.Context, rec backend.LeaseRecord) error {
			return b().Restore(ctx, rec)
		})},
		{"postgres, Runner.Run with 10 checkpoints", func(ctx context.Context) error {
			return run(lease(b(), "a"), 10)(ctx)
		}},
	}
}

func lease(b backend.Backend, holder string) worklease.Lease {
	return must(worklease.New(b, worklease.Config{TTL: ttl, HolderID: holder}))
}

// run is a whole run with so many checkpoints of 1 KB.
func run(l worklease.Lease, checkpoints int) func(context.Context) error {
	state := make([]byte, 1024)
	r := must(worker.NewRunner(worker.RunnerConfig{
		Lease: l,
		WorkFn: func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			for range checkpoints {
				if err := l.Checkpoint(ctx, token, state); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}))
	return func(ctx context.Context) error { return r.Run(ctx, "run") }
}
