package wake_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/internal/testkit/bubble"
)

func TestWake(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "wake")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})
