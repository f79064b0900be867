// Package conformance is what every backend must do, as a Ginkgo suite that runs
// against any implementation of [backend.Backend].
//
// The author of a backend needs nothing for it but a constructor:
//
//	package redis_test
//
//	import (
//		"testing"
//
//		. "github.com/onsi/ginkgo/v2"
//		. "github.com/onsi/gomega"
//
//		"github.com/aetomala/worklease/backend"
//		"github.com/aetomala/worklease/backend/conformance"
//	)
//
//	func TestRedis(t *testing.T) {
//		RegisterFailHandler(Fail)
//		RunSpecs(t, "redis")
//	}
//
//	var _ = Describe("redis", conformance.RunSuite(func() backend.Backend {
//		return redis.New(client)
//	}))
//
// # Guarantees
//
// Whatever the suite finds out, it finds out through the interface: somebody
// else acquires and reads back. It never sleeps, since a non-positive ttl makes a
// lease that has already expired. Every spec has work IDs of its own, so that one
// store can serve the whole run. The optional interfaces of package backend are
// tried where the backend offers them; where it does not, their specs pass. So that a
// method whose signature is slightly wrong does not go unnoticed, have the compiler hold
// what the backend means to offer:
//
//	var _ backend.Lister = (*Backend)(nil)
//
// A backend whose checkpoints can be part of a transaction has a suite more,
// [RunTransactionSuite].
//
// # Not guaranteed
//
// The suite deletes what Sweep may delete, so the store must hold nothing else.
// The specs that sweep are Serial, which Ginkgo allows in an Ordered container
// only if that is Serial too. Time is the one thing that the suite cannot prove
// without waiting: that a lease lapses by itself, at its expiry and not before,
// and that no call moves an expiry back are left to specs of the backend's own.
package conformance

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/aetomala/worklease/backend"
)

// limit ends a spec's context; one that takes this long is stuck.
const limit = SpecTimeout(2 * time.Minute)

// RunSuite returns the suite as a tree for Ginkgo's Describe. It calls newBackend
// once for each spec; the backends that newBackend returns may share one store.
func RunSuite(newBackend func() backend.Backend) func() {
	return func() {
		s := &subject{}
		BeforeEach(func() { s.open(newBackend) })

		Describe("Acquire", func() { acquireSpecs(s) })
		Describe("Checkpoint", func() { checkpointSpecs(s) })
		Describe("Renew", func() { renewSpecs(s) })
		Describe("Release", func() { releaseSpecs(s) })
		Describe("ReadCheckpoint", func() { readSpecs(s) })
		Describe("Forget", func() { forgetSpecs(s) })
		Describe("Sweep", Serial, func() { sweepSpecs(s) })
		Describe("Restore", func() { restoreSpecs(s) })
		Describe("RenewBatch", func() { batchSpecs(s) })
		Describe("the generation of a checkpoint", func() { generationSpecs(s) })
		Describe("a Notifier", func() { notifySpecs(s) })
		Describe("List", func() { listSpecs(s) })
		Describe("ForceRelease", func() { forceSpecs(s) })
		Describe("a tentative checkpoint", func() { tentativeSpecs(s) })

		Describe("a refused call", func() { verdictSpecs(s) })
		Describe("a done context", func() { contextSpecs(s) })
		Describe("a handoff", func() { handoffSpecs(s) })
		Describe("the fencing token", func() { tokenSpecs(s) })
		Describe("the state", func() { stateSpecs(s) })
		Describe("identity", func() { identitySpecs(s) })
		Describe("concurrent use", func() { raceSpecs(s) })
		Describe("clients at once", func() { clientSpecs(s) })
		Describe("random operations", Serial, func() { randomSpecs(s) })
	}
}
