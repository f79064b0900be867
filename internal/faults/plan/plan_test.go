package plan_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/faults/plan"
)

func TestPlan(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Plan")
}

var _ = Describe("New", func() {
	const ttl = 2 * time.Second

	It("plans the same for the same seed, and another for another", func() {
		first := plan.New(7, time.Minute, 4, ttl)
		Expect(plan.New(7, time.Minute, 4, ttl)).To(Equal(first))
		Expect(plan.New(8, time.Minute, 4, ttl)).NotTo(Equal(first))
	})

	It("plans in half an hour well over what such a run must have", func() {
		count := map[plan.Kind]int{}
		cuts := 0
		for _, f := range plan.New(1, 30*time.Minute, 4, ttl) {
			count[f.Kind]++
			if f.Kind.Cut() {
				cuts++
			}
		}
		Expect(count[plan.Kill]).To(BeNumerically(">", 100))
		Expect(count[plan.FreezeLong]).To(BeNumerically(">", 100))
		Expect(count[plan.LoseReply]).To(BeNumerically(">", 100))
		Expect(count[plan.Crash]).To(BeNumerically(">", 20))
		Expect(cuts).To(BeNumerically(">", 100))
	})

	It("freezes for longer than the TTL where it says so", func() {
		for _, f := range plan.New(1, 10*time.Minute, 4, ttl) {
			switch f.Kind {
			case plan.FreezeLong:
				Expect(f.For).To(BeNumerically(">", ttl))
			case plan.FreezeShort:
				Expect(f.For).To(BeNumerically("<", ttl))
			}
		}
	})
})
