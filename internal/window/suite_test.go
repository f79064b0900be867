package window_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/internal/testkit/bubble"
)

func TestWindow(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "window")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})
