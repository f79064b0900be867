package agenda_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/agenda"
	"github.com/aetomala/worklease/internal/testkit/bubble"
)

var _ = Describe("Agenda", func() {
	type entry = agenda.Entry[string]

	It("calls back when its first entry falls due, wherever that was moved to", func() {
		bubble.Run(func() {
			start := time.Now()
			calls := make(chan time.Duration, 10)
			var a *agenda.Agenda[string]
			a = agenda.New[string](func() {
				calls <- time.Since(start)
				a.Take(time.Now())
			})
			first, second := &entry{Item: "first"}, &entry{Item: "second"}
			a.Set(first, start.Add(3*time.Second), 0)
			a.Set(second, start.Add(5*time.Second), 0)
			a.Set(first, start.Add(time.Second), 0)
			Expect(<-calls).To(Equal(time.Second))
			a.Set(first, start.Add(9*time.Second), 0)
			Expect(<-calls).To(Equal(5 * time.Second))
			a.Remove(first)
			bubble.Sleep(time.Minute)
			Expect(calls).To(BeEmpty())
		})
	})

	It("gives what is due, in its order, and what others may take along", func() {
		bubble.Run(func() {
			now := time.Now()
			a := agenda.New[string](func() {})
			for item, at := range map[string]time.Duration{"soon": 1, "now": 0, "later": 3, "past": -1} {
				a.Set(&entry{Item: item}, now.Add(at*time.Second), 2*time.Second)
			}
			Expect(a.Take(now)).To(Equal([]string{"past", "now"}))
			Expect(a.TakeAlong(now)).To(Equal([]string{"soon"}))
			Expect(a.TakeAlong(now)).To(BeEmpty())
			Expect(a.Take(now.Add(3 * time.Second))).To(Equal([]string{"later"}))
		})
	})

	It("forgets an entry that was removed, once and again", func() {
		bubble.Run(func() {
			a := agenda.New[string](func() { Fail("nothing is due") })
			e := &entry{Item: "removed"}
			a.Remove(e)
			a.Set(e, time.Now().Add(time.Second), 0)
			a.Remove(e)
			a.Remove(e)
			bubble.Sleep(time.Minute)
			Expect(a.Take(time.Now())).To(BeEmpty())
		})
	})

	It("keeps any number in order", func() {
		bubble.Run(func() {
			start := time.Now()
			var due atomic.Int32 // calls for other moments may overlap
			var a *agenda.Agenda[int]
			a = agenda.New[int](func() {
				for _, n := range a.Take(time.Now()) {
					Expect(time.Since(start)).To(Equal(time.Duration(n)))
					due.Add(1)
				}
			})
			entries := make([]*agenda.Entry[int], 500)
			for i := range entries {
				entries[i] = &agenda.Entry[int]{}
				for range 3 { // and moved twice
					n := 1 + rand.IntN(1000)
					entries[i].Item = n
					a.Set(entries[i], start.Add(time.Duration(n)), 0)
				}
			}
			for _, e := range entries[:100] {
				a.Remove(e)
			}
			bubble.Sleep(time.Second)
			synctest.Wait()
			Expect(due.Load()).To(BeEquivalentTo(400))
		})
	})
})
