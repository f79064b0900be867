//go:build linux

package report

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/ours"
	"github.com/aetomala/worklease/internal/bench/plan"
	"github.com/aetomala/worklease/internal/bench/server"
)

// results are as a run would leave them, every contender at 100 a second.
func results() Results {
	c := &Compared{Samples: measure.Samples{}}
	servers := &plan.Servers{Postgres: &server.Postgres{}, Redis: &server.Redis{}, Etcd: &server.Etcd{}}
	for _, table := range servers.Tables(time.Second) {
		for _, contender := range table.Contenders {
			for _, clients := range table.Clients {
				c.Samples[measure.Key{Table: table.ID, Contender: contender.Name, Clients: clients}] = []measure.Sample{{Rate: 100}}
			}
		}
	}
	for _, leases := range plan.HeldLeases {
		c.Held = append(c.Held,
			Holding{Leases: leases, Rounds: []ours.Held{{Renewed: 100, Cost: measure.Cost{Flushes: 100, CPU: 10}}}},
			Holding{Leases: leases, Batched: true, Rounds: []ours.Held{{Renewed: 100, Cost: measure.Cost{Flushes: 1, CPU: 1}, Bytes: 3000, Goroutines: 5}}})
	}
	return Results{Compared: c}
}

var _ = Describe("The report", func() {
	It("is written with a plot of everything, and can be read again", func() {
		dir := GinkgoT().TempDir()
		Expect(results().Write(dir)).To(Succeed())
		plots, err := filepath.Glob(filepath.Join(dir, "benchmarks", "*.svg"))
		Expect(err).NotTo(HaveOccurred())
		Expect(plots).To(HaveLen(7))

		file := filepath.Join(dir, "results.json")
		Expect(results().Save(file)).To(Succeed())
		Expect(Load(file)).To(Equal(results()))
	})

	It("has every contender's rate and share", func() {
		text, err := results().render()
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring("| DBOS | 100 (100–100) | 1.00 (1.00–1.00) |"))
	})

	It("shows how each peer is used", func() {
		text, err := Results{}.render()
		Expect(err).NotTo(HaveOccurred())
		for _, call := range []string{"river.ResumableStepCursor(", "dbos.RunWorkflow(", "concurrency.NewMutex(", "locker.Obtain("} {
			Expect(text).To(ContainSubstring(call))
		}
	})

	It("leaves out what was not measured", func() {
		text, err := Results{}.render()
		Expect(err).NotTo(HaveOccurred())
		Expect(text).NotTo(ContainSubstring("## Larger tables"))
	})

	It("begins with no results where none are kept", func() {
		Expect(Load(filepath.Join(GinkgoT().TempDir(), "none.json"))).To(Equal(Results{}))
	})

	It("refuses results that it cannot read", func() {
		file := filepath.Join(GinkgoT().TempDir(), "results.json")
		Expect(os.WriteFile(file, []byte("{"), 0o600)).To(Succeed())
		_, err := Load(file)
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("A target", func() {
	DescribeTable("is judged by the median",
		func(t Target, met bool) { Expect(t.Met()).To(Equal(met)) },
		Entry("at least, reached", Target{Bound: 0.8, Got: measure.Spread{Median: 0.8, Least: 0.1}}, true),
		Entry("at least, missed", Target{Bound: 0.8, Got: measure.Spread{Median: 0.79, Greatest: 2}}, false),
		Entry("at most, reached", Target{Bound: 3, AtMost: true, Got: measure.Spread{Median: 3, Greatest: 9}}, true),
		Entry("at most, missed", Target{Bound: 3, AtMost: true, Got: measure.Spread{Median: 3.1}}, false),
	)

	It("of leases held compares renewals, not runs", func() {
		text := targetGrid(results().Compared.heldTargets())
		Expect(text).To(ContainSubstring("flushes, of single renewals | at most 0.0200 | 0.0100 (0.0100–0.0100) | reached"))
		Expect(text).To(ContainSubstring("CPU of the database, of single renewals | at most 0.20 | 0.10 (0.10–0.10) | reached"))
	})

	It("that was missed is plain to see", func() {
		Expect(targetGrid([]Target{{What: "it", Bound: 2}})).To(ContainSubstring("| it | at least 2 | 0 (0–0) | **missed** |"))
	})
})

var _ = DescribeTable("A number has commas between its thousands",
	func(value float64, digits int, want string) { Expect(thousands(value, digits)).To(Equal(want)) },
	Entry("none below", 999.0, 0, "999"),
	Entry("one", 1000.0, 0, "1,000"),
	Entry("with a fraction", 1234567.891, 2, "1,234,567.89"),
	Entry("below zero", -1234.0, 0, "-1,234"),
)
