package postgres_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend/postgres"
)

var _ = Describe("A statement inside the caller's transaction", func() {
	It("takes one round trip, once a call outside of it has prepared what was wanted inside", func(ctx SpecContext) {
		l, over := openLine(ownSchema(true))
		over.SetMaxOpenConns(1)
		b := on(over)
		rec := acquire(ctx, b, work, "a")
		Expect(b.Renew(ctx, rec, ttl)).To(Succeed())

		for _, want := range []struct {
			round       string
			trips       int // of each statement
			outsideThen int // of a Renew after the transaction
		}{
			{"sent as text", 2, 3},
			{"prepared", 1, 1},
			{"prepared still", 1, 1},
		} {
			tx, err := over.BeginTx(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			l.watch(nil)
			Expect(b.Guard(ctx, tx, fence{rec})).To(Succeed())
			Expect(l.trips()).To(Equal(want.trips), "a guard "+want.round)
			l.watch(nil)
			Expect(b.Checkpoint(postgres.WithTx(ctx, tx), rec, []byte("state"), ttl)).To(Succeed())
			Expect(l.trips()).To(Equal(want.trips), "a checkpoint "+want.round)
			Expect(tx.Commit()).To(Succeed())
			l.watch(nil)
			Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
			Expect(l.trips()).To(Equal(want.outsideThen), "a renewal after a transaction "+want.round)
		}
	}, SpecTimeout(bound))

	It("is prepared nowhere for a pooler", func(ctx SpecContext) {
		l, over := openLine(ownSchema(true))
		b := on(over, postgres.WithTransactionPooler())
		rec := acquire(ctx, b, work, "a")
		l.watch(nil)
		for range 2 {
			tx, err := over.BeginTx(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(b.Checkpoint(postgres.WithTx(ctx, tx), rec, nil, ttl)).To(Succeed())
			Expect(tx.Commit()).To(Succeed())
			Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
		}
		// A Parse message (PostgreSQL, "Message Formats") names its statement first.
		Expect(l.count('P', "")).To(Equal(4))
		Expect(l.count('P', "\x00-- ")).To(Equal(4), "the empty name")
	}, SpecTimeout(bound))
})
