package serverfaults

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
)

// OddDefaults are session defaults of a role that change how values are written.
var OddDefaults = [][2]string{
	{"TimeZone", "Asia/Kolkata"},
	{"IntervalStyle", "sql_standard"},
	{"bytea_output", "escape"},
	{"DateStyle", "SQL, DMY"},
}

func (s *subject) settingSpecs() {
	It("26a: of a role changes no instant, no state and no remaining time", limit, func(ctx SpecContext) {
		odd := s.open(Restricted(ctx, s.dsn, OddDefaults...))
		b := on(odd)
		a := holder(b, "a", time.Hour)
		start := time.Now()
		token := acquire(ctx, a, work)
		Expect(token.ExpiresAt()).To(BeTemporally("~", start.Add(time.Hour), time.Minute))

		state := make([]byte, 256)
		for i := range state {
			state[i] = byte(i)
		}
		Expect(a.Checkpoint(ctx, token, state)).To(Succeed())
		Expect(read(ctx, a, token).State).To(Equal(state))
		Expect(a.Renew(ctx, token)).To(Succeed())

		_, err := holder(b, "b", time.Hour).Acquire(ctx, work)
		var held *worklease.HeldError
		Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
		Expect(held.Remaining).To(BeNumerically("~", time.Hour, time.Minute))

		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
		Expect(b.Sweep(ctx, worklease.SweepOptions{Retention: -time.Hour})).To(BeZero())
		token = acquire(ctx, a, work)
		Expect(a.Release(ctx, token, worklease.ExitRetired)).To(Succeed())
		Expect(b.Sweep(ctx, worklease.SweepOptions{Retention: time.Hour})).To(BeZero())
		Expect(b.Sweep(ctx, worklease.SweepOptions{Retention: -time.Hour})).To(Equal(int64(1)))
	})
}
