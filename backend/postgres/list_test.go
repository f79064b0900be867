package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// listed collects the work IDs that b lists.
func listed(ctx context.Context, b *postgres.Backend, opts backend.ListOptions) (ids []string) {
	GinkgoHelper()
	for info, err := range b.List(ctx, opts) {
		Expect(err).NotTo(HaveOccurred())
		ids = append(ids, info.WorkID)
	}
	return ids
}

// only returns what b lists, which is one lease.
func only(ctx context.Context, b *postgres.Backend) (only backend.LeaseInfo) {
	GinkgoHelper()
	n := 0
	for info, err := range b.List(ctx, backend.ListOptions{}) {
		Expect(err).NotTo(HaveOccurred())
		only = info
		n++
	}
	Expect(n).To(Equal(1))
	return only
}

var _ = Describe("List of many rows", func() {
	const rows = 2500 // two pages and a half

	DescribeTable("lists each once, a thousand a statement, and one more to see that there are no more",
		func(ctx SpecContext, kind byte, opts ...postgres.Option) {
			l, over := openLine(ownSchema(true))
			b := on(over, opts...)
			fill(ctx, over, "work-", "finished", rows)
			listed(ctx, b, backend.ListOptions{}) // prepares

			l.watch(nil)
			ids := listed(ctx, b, backend.ListOptions{})
			Expect(l.count(kind, "list")).To(Equal(4))
			Expect(ids).To(HaveLen(rows))
			slices.Sort(ids)
			Expect(slices.Compact(ids)).To(HaveLen(rows))
		},
		Entry("prepared", SpecTimeout(bound), byte(bind)),
		Entry("behind a pooler", SpecTimeout(bound), byte(bind), postgres.WithTransactionPooler()),
	)

	It("finds the few that are selected, wherever they stand", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		fill(ctx, db, "work-", "finished", rows)
		for _, id := range []string{"a", "work-17", "work-2500", "z"} { // first, within, and last in every order
			exec(ctx, db, `DELETE FROM worklease_leases WHERE work_id = $1`, id)
			acquire(ctx, b, id, "rare")
		}
		Expect(listed(ctx, b, backend.ListOptions{HolderID: "rare"})).To(Equal([]string{"a", "work-17", "work-2500", "z"}))
		Expect(listed(ctx, b, backend.ListOptions{Live: true})).To(HaveLen(4))
		Expect(listed(ctx, b, backend.ListOptions{WorkIDPrefix: "work-24"})).To(HaveLen(111)) // 24, 240 to 249, 2400 to 2499
	}, SpecTimeout(bound))

	It("lists what is there all the while, though others come and go", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		fill(ctx, db, "stays-", "finished", rows)
		fill(ctx, db, "goes-", "finished", rows)
		seen := map[string]int{}
		for info, err := range b.List(ctx, backend.ListOptions{}) {
			Expect(err).NotTo(HaveOccurred())
			seen[info.WorkID]++
			if len(seen) == 500 {
				exec(ctx, db, `DELETE FROM worklease_leases WHERE work_id LIKE 'goes-%'`)
				fill(ctx, db, "comes-", "finished", rows)
				exec(ctx, db, `UPDATE worklease_leases SET updated_at = now()`)
			}
		}
		for n := range rows {
			id := fmt.Sprintf("stays-%d", n+1)
			Expect(seen[id]).To(Equal(1), id)
		}
		for id, times := range seen {
			Expect(times).To(Equal(1), id)
		}
	}, SpecTimeout(bound))

	It("follows the collation of the primary key", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		exec(ctx, db, `ALTER TABLE worklease_leases ALTER COLUMN work_id TYPE text COLLATE "und-x-icu"`)
		var want []string
		for n := range 1500 {
			// In this collation hyphens hardly count and case comes after all else.
			for _, form := range []string{"job%d", "Job%d", "j-ob%d", "JOB-%d"} {
				want = append(want, fmt.Sprintf(form, n))
			}
		}
		exec(ctx, db, `INSERT INTO worklease_leases (work_id, holder_id, expires_at)
			SELECT format(form, n), 'z', now() FROM generate_series(0, 1499) AS n, unnest(ARRAY['job%s', 'Job%s', 'j-ob%s', 'JOB-%s']) AS form`)
		ids := listed(ctx, on(db), backend.ListOptions{})
		Expect(slices.IsSorted(ids)).To(BeFalse(), "the collation is that of bytes")
		slices.Sort(ids)
		slices.Sort(want)
		Expect(slices.Equal(ids, want)).To(BeTrue())
	}, SpecTimeout(bound))

	It("bounds the states of a page, and still gives one that is larger", func(ctx SpecContext) {
		l, over := openLine(ownSchema(true))
		b := on(over)
		const mebibyte = 1 << 20
		sizes := []int{3 * mebibyte / 2, 0, 3 * mebibyte / 2, 3 * mebibyte / 2, 9 * mebibyte, 1} // pages of 4, 1, 1 and none
		for n, size := range sizes {
			rec := acquire(ctx, b, fmt.Sprintf("work-%d", n), "a")
			Expect(b.Checkpoint(ctx, rec, bytes.Repeat([]byte{'x'}, size), ttl)).To(Succeed())
		}
		listed(ctx, b, backend.ListOptions{}) // prepares

		l.watch(nil)
		n := 0
		for info, err := range b.List(ctx, backend.ListOptions{State: true}) {
			Expect(err).NotTo(HaveOccurred())
			Expect(info.StateSize).To(Equal(sizes[n]))
			Expect(len(info.State)).To(Equal(sizes[n]))
			n++
		}
		Expect(n).To(Equal(len(sizes)))
		Expect(l.count(bind, "list")).To(Equal(4))

		l.watch(nil)
		Expect(listed(ctx, b, backend.ListOptions{State: true, HolderID: "nobody"})).To(BeEmpty())
		Expect(l.count(bind, "list")).To(Equal(2), "states that are not wanted do not count")
	}, SpecTimeout(bound))

	It("needs one connection, and none between two leases", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		db.SetMaxOpenConns(1)
		b := on(db)
		fill(ctx, db, "work-", "", 10)
		for info, err := range b.List(ctx, backend.ListOptions{}) {
			Expect(err).NotTo(HaveOccurred())
			Expect(db.Stats().InUse).To(BeZero())
			acquire(ctx, b, info.WorkID, "a")
		}
		Expect(listed(ctx, b, backend.ListOptions{Live: true})).To(HaveLen(10))
	}, SpecTimeout(bound))
})

var _ = Describe("List of an odd row", func() {
	It("lists one without a name, which an earlier version may have taken", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		exec(ctx, db, `INSERT INTO worklease_leases (work_id, holder_id, expires_at) VALUES ('', 'z', now()), ('work', 'z', now())`)
		Expect(listed(ctx, on(db), backend.ListOptions{})).To(Equal([]string{"", "work"}))
	}, SpecTimeout(bound))

	It("cuts times that Go cannot count", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		acquire(ctx, b, work, "a")
		exec(ctx, db, `UPDATE worklease_leases SET expires_at = 'infinity', acquired_at = '-infinity', updated_at = '4000-01-01'`)
		info := only(ctx, b)
		Expect(info.Live).To(BeTrue())
		Expect(time.Until(info.ExpiresAt)).To(BeNumerically(">", 280*365*24*time.Hour))
		Expect(time.Since(info.AcquiredAt)).To(BeNumerically(">", 280*365*24*time.Hour))
		Expect(time.Until(info.UpdatedAt)).To(BeNumerically(">", 280*365*24*time.Hour))
	}, SpecTimeout(bound))

	It("reads as expired where its exits are such as a later release may add", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		Expect(b.Release(ctx, acquire(ctx, b, work, "a"), backend.ExitFinished)).To(Succeed())
		exec(ctx, db, `ALTER TABLE worklease_leases
			DROP CONSTRAINT worklease_leases_exit_mode_check, DROP CONSTRAINT worklease_leases_prev_exit_mode_check`)
		exec(ctx, db, `UPDATE worklease_leases SET exit_mode = 'suspended', prev_exit_mode = 'suspended'`)
		info := only(ctx, b)
		Expect(info.Exit).To(Equal(backend.ExitExpired))
		Expect(info.PrevExit).To(Equal(backend.ExitExpired))
		Expect(listed(ctx, b, backend.ListOptions{Exit: backend.ExitExpired})).To(Equal([]string{work}))
	}, SpecTimeout(bound))

	It("tells when the lease was taken without the generation of its checkpoint", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		rec := acquire(ctx, b, work, "a")
		before := only(ctx, b).AcquiredAt
		Expect(b.Checkpoint(backend.WithGeneration(ctx, 7), rec, nil, ttl)).To(Succeed())
		Expect(only(ctx, b).AcquiredAt).To(Equal(before))
	}, SpecTimeout(bound))
})
