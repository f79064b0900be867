package measure_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/bench/measure"
)

// fixed does what it is told to have done, and costs three statements each time.
type fixed struct {
	name  string
	log   *[]string
	spent *float64
}

func (f fixed) Prepare(context.Context) error {
	*f.log = append(*f.log, f.name)
	*f.spent += 1000 // must not count
	return nil
}

func (f fixed) Run(context.Context, int, time.Duration) (measure.Done, error) {
	*f.spent += 3 * 20
	return measure.Done{Timed: 10, Elapsed: 2 * time.Second, All: 20}, nil
}

func (f fixed) Read(context.Context) (measure.Cost, error) {
	return measure.Cost{Statements: *f.spent}, nil
}

var _ = Describe("Run", func() {
	var (
		order    []string
		spent    float64
		table    measure.Table
		samples  measure.Samples
		contends = func(name string) measure.Contender {
			f := fixed{name, &order, &spent}
			return measure.Contender{Name: name, Work: f, On: f}
		}
	)
	BeforeEach(func() {
		order, spent, samples = nil, 0, measure.Samples{}
		table = measure.Table{ID: "t", Clients: []int{1}, Contenders: []measure.Contender{contends("a"), contends("b"), contends("c")}}
	})

	It("begins each round with another contender", func(ctx SpecContext) {
		Expect(measure.Run(ctx, []measure.Table{table}, 3, samples, io.Discard)).To(Succeed())
		Expect(order).To(Equal([]string{"a", "b", "c", "b", "c", "a", "c", "a", "b"}))
	})

	It("takes the rate from what was timed, and the cost from all", func(ctx SpecContext) {
		Expect(measure.Run(ctx, []measure.Table{table}, 2, samples, io.Discard)).To(Succeed())
		got := samples[measure.Key{Table: "t", Contender: "b", Clients: 1}]
		Expect(got).To(HaveLen(2))
		Expect(got[1].Rate).To(Equal(5.0))
		Expect(got[1].Cost.Statements).To(Equal(3.0))
	})

	It("names who failed", func(ctx SpecContext) {
		table.Contenders[1].Work = measure.Loop{Ready: func(context.Context) error { return errors.New("broken") }}
		err := measure.Run(ctx, []measure.Table{table}, 1, samples, io.Discard)
		Expect(err).To(MatchError("t: b with 1 clients: broken"))
	})
})

var _ = Describe("A loop", func() {
	var closed atomic.Int64
	loop := func(do func(context.Context, int) error) measure.Loop {
		return measure.Loop{Open: func(context.Context, int) (measure.Session, error) {
			return measure.Session{Do: do, Close: func() error { closed.Add(1); return nil }}, nil
		}}
	}
	BeforeEach(func() { closed.Store(0) })

	It("counts every time that a client did the work, and what was before time apart", func(ctx SpecContext) {
		var times atomic.Int64
		done, err := loop(func(context.Context, int) error { times.Add(1); return nil }).Run(ctx, 3, time.Millisecond)
		Expect(err).NotTo(HaveOccurred())
		Expect(done.All).To(Equal(int(times.Load())))
		Expect(done.Timed).To(And(BeNumerically(">=", 3), BeNumerically("<=", done.All-3)))
		Expect(closed.Load()).To(Equal(int64(1)))
	})

	It("gives clients a context that can end", func(ctx SpecContext) {
		_, err := loop(func(ctx context.Context, _ int) error {
			if ctx.Done() == nil {
				return errors.New("cannot end")
			}
			return nil
		}).Run(context.WithoutCancel(ctx), 1, time.Millisecond)
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("ends with the first error, and closes",
		func(ctx SpecContext, good int64) {
			var times atomic.Int64
			_, err := loop(func(context.Context, int) error {
				if times.Add(1) > good {
					return errors.New("broken")
				}
				return nil
			}).Run(ctx, 1, time.Hour)
			Expect(err).To(MatchError("broken"))
			Expect(closed.Load()).To(Equal(int64(1)))
		},
		Entry("before time is taken", int64(0)),
		Entry("after", int64(5)),
	)
})

var _ = Describe("Samples", func() {
	It("survive being kept as JSON", func() {
		samples := measure.Samples{{Table: "a run, with 10", Contender: "Lease, lib/pq", Clients: 32}: {{Rate: 1.5, Cost: measure.Cost{CPU: 2}}}}
		text, err := json.Marshal(samples)
		Expect(err).NotTo(HaveOccurred())
		var read measure.Samples
		Expect(json.Unmarshal(text, &read)).To(Succeed())
		Expect(read).To(Equal(samples))
	})

	It("are refused where a key is none", func() {
		var read measure.Samples
		Expect(json.Unmarshal([]byte(`{"a | b": []}`), &read)).NotTo(Succeed())
	})
})
