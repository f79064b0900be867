// Package bubble runs parts of Ginkgo specs in testing/synctest bubbles, where
// time moves only when every goroutine waits and then exactly as far as needed.
//
// Inside a bubble:
//
//   - Use context.Background(), not the SpecContext: its timer belongs to the
//     world outside, and waiting for it does not let time move.
//   - Put defer GinkgoRecover() into each goroutine that makes assertions.
//   - Let every goroutine end, at the latest an hour after the body. One that
//     does not makes the bubble panic, so it also proves that nothing leaked.
//   - Register no DeferCleanup that touches a channel or timer of the bubble: it
//     runs outside.
//   - Network I/O does not count as waiting; real servers stay outside.
package bubble

import (
	"testing"
	"testing/synctest"
	"time"
)

var suite *testing.T

// Keep remembers the test that runs the suite. Its Test function calls it before
// RunSpecs.
func Keep(t *testing.T) { suite = t } //nolint:thelper // It only keeps t.

// drain is how long the goroutines of a body may take to end after it.
const drain = time.Hour

// Run runs body in a bubble of its own and returns when it and all goroutines
// that it started have ended. What body panics with, a failed assertion of
// Gomega too, comes out of Run.
func Run(body func()) {
	if suite == nil {
		panic("bubble: Run before Keep")
	}
	var raised any
	synctest.Test(suite, func(*testing.T) {
		// Here a panic would end the process and not the spec.
		defer func() {
			raised = recover()
			// Time stands still once this function has returned.
			Sleep(drain)
		}()
		body()
	})
	if raised != nil {
		panic(raised)
	}
}

// Sleep waits for d of the bubble's time. Outside of a bubble no spec should.
func Sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // moves the bubble's clock
}
