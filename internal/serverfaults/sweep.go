package serverfaults

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
)

func (s *subject) sweepSpecs() {
	DescribeTable("deletes the same on a server as in memory, and counts it",
		func(ctx SpecContext, expired bool, want ...string) {
			opts := worklease.SweepOptions{Retention: time.Hour, IncludeExpired: expired}

			db := s.database()
			server := on(db)
			furnish(ctx, server, func() {
				run(ctx, db, `
					UPDATE worklease_leases SET updated_at = updated_at - interval '2 hours',
					                            expires_at = expires_at - interval '2 hours'`)
			})
			Expect(server.Sweep(ctx, opts)).To(Equal(int64(len(want))))
			Expect(gone(ctx, server)).To(ConsistOf(want))

			clock := &manual{now: time.Now()}
			local := memory.New(memory.WithClock(clock))
			furnish(ctx, local, func() { clock.now = clock.now.Add(2 * time.Hour) })
			Expect(local.Sweep(ctx, opts)).To(Equal(int64(len(want))))
			Expect(gone(ctx, local)).To(ConsistOf(want))
		},
		Entry("29a: what was retired before the retention", limit, false, "old retired"),
		Entry("29a: what lapsed before it, too, when that is asked for", limit, true, "old retired", "old expired"),
	)
}

// fates are what can have become of a lease.
var fates = []struct {
	name string
	ttl  time.Duration
	exit backend.ExitMode
}{
	{"held", 24 * time.Hour, backend.ExitNone},
	{"finished", time.Minute, backend.ExitFinished},
	{"abandoned", time.Minute, backend.ExitAbandoned},
	{"retired", time.Minute, backend.ExitRetired},
	{"expired", -time.Minute, backend.ExitNone},
}

// furnish makes leases of every fate, lets them age, and makes more.
func furnish(ctx context.Context, b backend.Backend, age func()) {
	GinkgoHelper()
	fill := func(when string) {
		for _, f := range fates {
			rec, err := b.Acquire(ctx, when+f.name, "a", f.ttl)
			Expect(err).NotTo(HaveOccurred())
			if f.exit != backend.ExitNone {
				Expect(b.Release(ctx, rec, f.exit)).To(Succeed())
			}
		}
	}
	fill("old ")
	age()
	fill("new ")
}

// gone returns the leases that no longer have a row.
func gone(ctx context.Context, b backend.Backend) (names []string) {
	GinkgoHelper()
	for _, when := range []string{"old ", "new "} {
		for _, f := range fates {
			rec, err := b.Acquire(ctx, when+f.name, "b", time.Minute)
			if errors.Is(err, backend.ErrLeaseHeld) {
				continue
			}
			Expect(err).NotTo(HaveOccurred())
			cp, err := b.ReadCheckpoint(ctx, rec)
			Expect(err).NotTo(HaveOccurred())
			if cp.PrevExit == backend.ExitNone {
				names = append(names, when+f.name)
			}
		}
	}
	return names
}

// manual is a clock that only a spec moves.
type manual struct{ now time.Time }

// Now implements memory.Clock.
func (m *manual) Now() time.Time { return m.now }
