package postgres_test

import (
	"database/sql"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("The row", func() {
	var (
		raw *sql.DB
		b   *postgres.Backend
	)
	BeforeEach(func() {
		raw = pgtest.Open(ownSchema(true))
		b = on(raw)
	})

	It("10a: is the same byte for byte after every call of a holder that lost it", SpecTimeout(bound), func(ctx SpecContext) {
		version := func() (text string) {
			GinkgoHelper()
			Expect(raw.QueryRowContext(ctx, `SELECT concat_ws(' ', xmin, ctid, l) FROM worklease_leases AS l WHERE work_id = $1`, work).
				Scan(&text)).To(Succeed())
			return text
		}
		lost := acquire(ctx, b, work, "a")
		Expect(b.Renew(ctx, lost, 0)).To(Succeed())
		Expect(b.Checkpoint(ctx, acquire(ctx, b, work, "b"), []byte("b's"), ttl)).To(Succeed())
		before := version()

		_, err := b.ReadCheckpoint(ctx, lost)
		Expect(err).To(MatchError(backend.ErrFenced))
		Expect(b.Checkpoint(ctx, lost, []byte("a's"), ttl)).To(MatchError(backend.ErrFenced))
		Expect(b.Renew(ctx, lost, ttl)).To(MatchError(backend.ErrFenced))
		Expect(b.Release(ctx, lost, backend.ExitFinished)).To(MatchError(backend.ErrFenced))
		Expect(b.Forget(ctx, lost)).To(MatchError(backend.ErrFenced))
		Expect(b.Restore(ctx, lost)).To(MatchError(backend.ErrFenced))
		Expect(version()).To(Equal(before))
	})

	It("is held where its expiry is one that no clock reaches", SpecTimeout(bound), func(ctx SpecContext) {
		acquire(ctx, b, work, "a")
		_, err := raw.ExecContext(ctx, `UPDATE worklease_leases SET expires_at = 'infinity'`)
		Expect(err).NotTo(HaveOccurred())
		_, err = b.Acquire(ctx, work, "b", ttl)
		var held *backend.HeldError
		Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
		Expect(held.HolderID).To(Equal("a"))
		Expect(held.Remaining).To(BeNumerically(">", 280*365*24*time.Hour))
	})

	It("reads as expired where its exit is one that a later release may add", SpecTimeout(bound), func(ctx SpecContext) {
		Expect(b.Release(ctx, acquire(ctx, b, work, "a"), backend.ExitFinished)).To(Succeed())
		_, err := raw.ExecContext(ctx, `
			ALTER TABLE worklease_leases DROP CONSTRAINT worklease_leases_exit_mode_check;
			UPDATE worklease_leases SET exit_mode = 'suspended'`)
		Expect(err).NotTo(HaveOccurred())
		Expect(read(ctx, b, acquire(ctx, b, work, "b"))).To(Equal(
			backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
	})

	It("reads as expired where its previous exit is such a one", SpecTimeout(bound), func(ctx SpecContext) {
		rec := acquire(ctx, b, work, "a")
		_, err := raw.ExecContext(ctx, `
			ALTER TABLE worklease_leases DROP CONSTRAINT worklease_leases_prev_exit_mode_check;
			UPDATE worklease_leases SET prev_exit_mode = 'suspended', prev_holder_id = 'z'`)
		Expect(err).NotTo(HaveOccurred())
		Expect(read(ctx, b, rec)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitExpired, PrevHolderID: "z"}))
	})
})
