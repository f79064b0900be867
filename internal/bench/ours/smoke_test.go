//go:build linux

package ours

import (
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/server"
)

// moment is a turn that measures nothing but shows that the work works.
const moment = 30 * time.Millisecond

var _ = Describe("On a real server", Ordered, func() {
	var (
		pg    *server.Postgres
		store *Store
	)
	BeforeAll(func(ctx SpecContext) {
		var err error
		pg, err = server.StartPostgres(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(pg.Close)
		dsn, err := pg.Create(ctx, "worklease")
		Expect(err).NotTo(HaveOccurred())
		store, err = NewStore(ctx, dsn, "../../..")
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(time.Minute))

	// costs says how many statements one time takes; connecting takes a few more.
	costs := func(ctx SpecContext, w measure.Work, statements float64) {
		GinkgoHelper()
		table := measure.Table{ID: "t", Clients: []int{2}, Length: moment, Contenders: []measure.Contender{{Name: "w", Work: w, On: pg}}}
		samples := measure.Samples{}
		Expect(measure.Run(ctx, []measure.Table{table}, 1, samples, GinkgoWriter)).To(Succeed())
		s := samples[measure.Key{Table: "t", Contender: "w", Clients: 2}][0]
		Expect(s.Rate).To(BeNumerically(">", 0))
		// Each client does it once at the least, beside an acquisition before it.
		Expect(s.Cost.Statements).To(BeNumerically("~", statements, 1.01), fmt.Sprint(s))
	}

	operations := []struct {
		name       string
		op         Operation
		statements float64
	}{
		{"Renew", Renew, 1},
		{"Checkpoint", Checkpoint, 1},
		{"Acquire and Release", AcquireRelease, 2},
		{"a failed Acquire", Refused(100), 1},
	}
	for _, o := range operations {
		It("pgbench does as many statements as we: "+o.name, func(ctx SpecContext) {
			costs(ctx, o.op.Limit(store, pg.Pgbench), o.statements)
		}, SpecTimeout(time.Minute))

		for _, driver := range []Driver{LibPQ, Pgx} {
			for _, level := range []Level{AsStatement, AsBackend, AsUnbounded, AsLease} {
				It(fmt.Sprintf("%s works as %s through %s", o.name, level.Name, driver.Name), func(ctx SpecContext) {
					costs(ctx, o.op.At(store, level, driver), o.statements)
				}, SpecTimeout(time.Minute))
			}
		}
	}

	It("a plain upsert is refused too", func(ctx SpecContext) {
		costs(ctx, Refused(1).At(store, AsUpsert, LibPQ), 1)
	}, SpecTimeout(time.Minute))

	It("a Runner sends what the bare run sends", func(ctx SpecContext) {
		costs(ctx, Run(10).At(store, AsStatement, LibPQ), 13)
		costs(ctx, Runner(store, LibPQ, 10), 13)
	}, SpecTimeout(time.Minute))

	for _, grown := range GrownOperations {
		It(grown.Name+" works on any row of a larger table", func(ctx SpecContext) {
			statements := 1.0
			if !grown.held {
				statements = 2
			}
			costs(ctx, grown.On(store, 1000), statements)
		}, SpecTimeout(time.Minute))
	}

	It("the statements are those of the library", func() {
		for name := range arguments {
			text, err := os.ReadFile("../../../backend/postgres/queries/" + name + ".sql")
			Expect(err).NotTo(HaveOccurred())
			Expect(store.queries).To(HaveKeyWithValue(name, string(text)))
		}
	})
})
