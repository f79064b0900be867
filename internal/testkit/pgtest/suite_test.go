package pgtest_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"
)

const bound = time.Minute

func TestPgtest(t *testing.T) {
	SetDefaultEventuallyTimeout(10 * time.Second)
	RegisterFailHandler(Fail)
	RunSpecs(t, "pgtest")
}

// noLeaks holds a spec of servers of its own to the goroutines there were.
func noLeaks() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
}
