package window_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/window"
)

const ttl = 10 * time.Second

var _ = Describe("Window", func() {
	DescribeTable("runs from its start for the TTL, shortened by an expiry ahead of the local clock alone",
		func(expiry func(now time.Time) time.Time, want time.Duration) {
			bubble.Run(func() {
				start := time.Now()
				bubble.Sleep(time.Second) // the answer took a second
				w := window.Open(start, ttl, expiry(time.Now()))
				Expect(w.Deadline().Sub(start)).To(Equal(want))
			})
		},
		Entry("an expiry beyond it", func(now time.Time) time.Time { return now.Add(time.Hour) }, ttl),
		Entry("the server's own expiry", func(now time.Time) time.Time { return now.Add(ttl) }, ttl),
		Entry("a shorter grant", func(now time.Time) time.Time { return now.Add(3 * time.Second) }, 4*time.Second),
		Entry("a shorter grant without a monotonic reading",
			func(now time.Time) time.Time { return now.Add(3 * time.Second).Round(0).UTC() }, 4*time.Second),
		Entry("an expiry in the past", func(now time.Time) time.Time { return now.Add(-time.Second) }, ttl),
		Entry("an expiry of this instant", func(now time.Time) time.Time { return now }, ttl),
		Entry("none", func(time.Time) time.Time { return time.Time{} }, ttl),
	)

	It("is open before its deadline and closed from it on", func() {
		bubble.Run(func() {
			w := window.Open(time.Now(), ttl, time.Time{})
			bubble.Sleep(ttl - 1)
			Expect(w.Open()).To(BeTrue())
			bubble.Sleep(1)
			Expect(w.Open()).To(BeFalse())
		})
	})

	It("moves on to the start of a write and its TTL", func() {
		bubble.Run(func() {
			w := window.Open(time.Now(), ttl, time.Time{})
			bubble.Sleep(time.Second)
			start := time.Now()
			bubble.Sleep(time.Second)
			w.Extend(start, ttl)
			Expect(w.Deadline()).To(Equal(start.Add(ttl)))
		})
	})

	It("believes a write of another TTL no more than that", func() {
		bubble.Run(func() {
			start := time.Now()
			w := window.Open(start, ttl, time.Time{})
			bubble.Sleep(time.Second)
			w.Extend(time.Now(), ttl/2)
			Expect(w.Deadline()).To(Equal(start.Add(ttl)))
		})
	})

	It("never moves back", func() {
		bubble.Run(func() {
			first := time.Now()
			w := window.Open(first, ttl, time.Time{})
			bubble.Sleep(time.Second)
			second := time.Now()
			w.Extend(second, ttl)
			w.Extend(first, ttl)
			Expect(w.Deadline()).To(Equal(second.Add(ttl)))
		})
	})

	It("never opens again", func() {
		bubble.Run(func() {
			start := time.Now()
			w := window.Open(start, ttl, time.Time{})
			bubble.Sleep(ttl)
			w.Extend(start.Add(ttl-1), ttl)
			Expect(w.Open()).To(BeFalse())
			Expect(w.Deadline()).To(Equal(start.Add(ttl)))
		})
	})

	DescribeTable("calls for a renewal after the interval, at the latest at half of itself",
		func(interval, granted, want time.Duration) {
			bubble.Run(func() {
				start := time.Now()
				w := window.Open(start, ttl, start.Add(granted))
				Expect(w.Due(interval).Sub(start)).To(Equal(want))
			})
		},
		Entry("the interval", 2*time.Second, ttl, 2*time.Second),
		Entry("half", time.Hour, ttl, ttl/2),
		Entry("half of a shorter grant", ttl/2, 4*time.Second, 2*time.Second),
	)
})
