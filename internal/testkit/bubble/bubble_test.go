package bubble_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/bubble"
)

func TestBubble(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "bubble")
}

var _ = Describe("Run", func() {
	It("moves time by exactly what its goroutines wait for", func() {
		outside := time.Now()
		var took time.Duration
		bubble.Run(func() {
			start := time.Now()
			go bubble.Sleep(time.Hour)
			bubble.Sleep(24 * time.Hour)
			synctest.Wait()
			took = time.Since(start)
		})
		Expect(took).To(Equal(24 * time.Hour))
		Expect(time.Since(outside)).To(BeNumerically("<", time.Minute))
	})

	It("raises outside what its body panics with", func() {
		mine := errors.New("mine")
		Expect(func() { bubble.Run(func() { panic(mine) }) }).To(PanicWith(mine))
	})

	It("lets an assertion that fails inside fail outside", func() {
		failures := InterceptGomegaFailures(func() {
			bubble.Run(func() { Expect(1).To(Equal(2)) })
		})
		Expect(failures).To(HaveLen(1))
	})

	It("panics when a goroutine of its body cannot end", func() {
		Expect(func() {
			bubble.Run(func() { go func() { select {} }() })
		}).To(PanicWith(MatchError(ContainSubstring("deadlock"))))
	})
})
