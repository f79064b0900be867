package pgtest_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("Server", func() {
	BeforeEach(noLeaks)

	It("has the configuration and the environment that were asked for", func(ctx SpecContext) {
		s := pgtest.Start(pgtest.Options{
			Config:  []string{"max_connections = 7"},
			Env:     []string{"SPEC=of the spec"},
			Durable: true,
		})
		db := pgtest.Open(s.DSN())
		for name, want := range map[string]string{"max_connections": "7", "fsync": "on"} {
			var got string
			Expect(db.QueryRowContext(ctx, "SELECT current_setting($1)", name).Scan(&got)).To(Succeed())
			Expect(got).To(Equal(want), name)
		}
		_, err := db.ExecContext(ctx, `COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; test "$SPEC" = "of the spec"'`)
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(bound))

	DescribeTable("keeps data and address over a stop and a start",
		func(ctx SpecContext, mode pgtest.StopMode) {
			s := pgtest.Start(pgtest.Options{})
			dsn := s.Database()
			_, err := pgtest.Open(dsn).ExecContext(ctx, "CREATE TABLE kept ()")
			Expect(err).NotTo(HaveOccurred())

			s.Stop(mode)
			Expect(pgtest.Open(dsn).PingContext(ctx)).NotTo(Succeed())
			s.Start()
			Expect(tables(ctx, pgtest.Open(dsn))).To(Equal(1))
		},
		Entry("when it is stopped fast", pgtest.Fast, SpecTimeout(bound)),
		Entry("when it is stopped as by a crash", pgtest.Immediate, SpecTimeout(bound)),
	)

	It("answers nothing while it is frozen, and everything once it is thawed", func(ctx SpecContext) {
		s := pgtest.Start(pgtest.Options{})
		db := pgtest.Open(s.DSN())
		Expect(db.PingContext(ctx)).To(Succeed())

		s.Freeze()
		answer := make(chan error, 1)
		go func() { answer <- db.PingContext(context.WithoutCancel(ctx)) }()
		Consistently(answer, 300*time.Millisecond).ShouldNot(Receive())
		s.Thaw()
		Eventually(answer).Should(Receive(BeNil()))
	}, SpecTimeout(bound))

	It("stops although it is frozen", func(ctx SpecContext) {
		s := pgtest.Start(pgtest.Options{})
		s.Freeze()
		s.Stop(pgtest.Fast)
		Expect(pgtest.Open(s.DSN()).PingContext(ctx)).NotTo(Succeed())
	}, SpecTimeout(bound))
})
