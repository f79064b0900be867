package measure_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/bench/measure"
)

var _ = Describe("A spread", func() {
	DescribeTable("has the median, the least and the greatest",
		func(values []float64, want measure.Spread) { Expect(measure.SpreadOf(values)).To(Equal(want)) },
		Entry("of nothing", nil, measure.Spread{}),
		Entry("of one", []float64{7}, measure.Spread{Median: 7, Least: 7, Greatest: 7}),
		Entry("of an odd number", []float64{9, 1, 4}, measure.Spread{Median: 4, Least: 1, Greatest: 9}),
		Entry("of an even number", []float64{9, 1, 4, 6}, measure.Spread{Median: 5, Least: 1, Greatest: 9}),
	)

	It("leaves the values as they were", func() {
		values := []float64{3, 1, 2}
		measure.SpreadOf(values)
		Expect(values).To(Equal([]float64{3, 1, 2}))
	})
})

var _ = Describe("A ratio", func() {
	ours := measure.Key{Table: "t", Contender: "ours", Clients: 8}
	limit := measure.Key{Table: "t", Contender: "limit", Clients: 8}
	samples := measure.Samples{
		ours:  {{Rate: 50}, {Rate: 300}, {Rate: 80}},
		limit: {{Rate: 100}, {Rate: 400}, {Rate: 100}},
	}

	It("is formed within each round", func() {
		// The ratio of the medians would be 0.8 as well, its spread 0.125 to 3.
		Expect(samples.Ratio(ours, limit, measure.Rate)).To(Equal(measure.Spread{Median: 0.75, Least: 0.5, Greatest: 0.8}))
	})

	It("of what was not measured is nothing", func() {
		Expect(samples.Ratio(ours, measure.Key{Table: "t"}, measure.Rate)).To(BeZero())
	})
})
