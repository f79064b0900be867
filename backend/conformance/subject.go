package conformance

import (
	"context"
	"crypto/rand"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

const (
	live   = time.Hour         // outlives the run
	lapsed = -time.Millisecond // has expired before the call returns
)

// newWorkID returns a work ID that no other spec and no other run has.
func newWorkID() string { return "conformance-" + rand.Text() }

// subject is the backend under test, with the steps that specs repeat. A step
// that the contract says succeeds fails the spec where it does not.
type subject struct {
	backend.Backend
}

// open makes the backend of one spec.
func (s *subject) open(newBackend func() backend.Backend) {
	GinkgoHelper()
	s.Backend = newBackend()
	Expect(s.Backend).NotTo(BeNil(), "newBackend returned no backend")
}

// take acquires.
func (s *subject) take(ctx context.Context, workID, holderID string, ttl time.Duration) backend.LeaseRecord {
	GinkgoHelper()
	rec, err := s.Acquire(ctx, workID, holderID, ttl)
	Expect(err).NotTo(HaveOccurred())
	return rec
}

// store writes state and leaves the lease live.
func (s *subject) store(ctx context.Context, rec backend.LeaseRecord, state string) {
	GinkgoHelper()
	Expect(s.Checkpoint(ctx, rec, []byte(state), live)).To(Succeed())
}

// storeLapsed writes state and leaves the lease lapsed.
func (s *subject) storeLapsed(ctx context.Context, rec backend.LeaseRecord, state string) {
	GinkgoHelper()
	Expect(s.Checkpoint(ctx, rec, []byte(state), lapsed)).To(Succeed())
}

// lapse ends a live lease as a crash and the passing of time would.
func (s *subject) lapse(ctx context.Context, rec backend.LeaseRecord) {
	GinkgoHelper()
	Expect(s.Renew(ctx, rec, lapsed)).To(Succeed())
}

// leave releases.
func (s *subject) leave(ctx context.Context, rec backend.LeaseRecord, mode backend.ExitMode) {
	GinkgoHelper()
	Expect(s.Release(ctx, rec, mode)).To(Succeed())
}

// read reads the checkpoint.
func (s *subject) read(ctx context.Context, rec backend.LeaseRecord) backend.Checkpoint {
	GinkgoHelper()
	cp, err := s.ReadCheckpoint(ctx, rec)
	Expect(err).NotTo(HaveOccurred())
	return cp
}

// succeed acquires as a successor and returns what it finds.
func (s *subject) succeed(ctx context.Context, workID string) backend.Checkpoint {
	GinkgoHelper()
	return s.read(ctx, s.take(ctx, workID, "successor", live))
}

// standing is what others can tell of a lease.
type standing struct {
	Held   bool
	Exit   backend.ExitMode
	Holder string
	State  string
}

// standing asks for the lease, ending it as owner first where it is live.
func (s *subject) standing(ctx context.Context, owner backend.LeaseRecord) standing {
	GinkgoHelper()
	rec, err := s.Acquire(ctx, owner.WorkID, "successor", live)
	held := err != nil
	if held {
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
		s.lapse(ctx, owner)
		rec = s.take(ctx, owner.WorkID, "successor", live)
	}
	cp := s.read(ctx, rec)
	return standing{Held: held, Exit: cp.PrevExit, Holder: cp.PrevHolderID, State: string(cp.State)}
}

// restorer returns the backend as a [backend.Restorer] where it is one. A spec
// about it has nothing to say of a backend that is none.
func (s *subject) restorer() (backend.Restorer, bool) {
	return offered[backend.Restorer](s, "Restorer")
}

// batcher returns the backend as a [backend.BatchRenewer] where it is one.
func (s *subject) batcher() (backend.BatchRenewer, bool) {
	return offered[backend.BatchRenewer](s, "BatchRenewer")
}

// forceReleaser returns the backend as a [backend.ForceReleaser] where it is one.
func (s *subject) forceReleaser() (backend.ForceReleaser, bool) {
	return offered[backend.ForceReleaser](s, "ForceReleaser")
}

// lister returns the backend as a [backend.Lister] where it is one.
func (s *subject) lister() (backend.Lister, bool) {
	return offered[backend.Lister](s, "Lister")
}

// generations returns how many the backend tells apart, where it is a
// [backend.Sequencer]. The specs want eight.
func (s *subject) generations() (int, bool) {
	q, ok := offered[backend.Sequencer](s, "Sequencer")
	if !ok {
		return 0, false
	}
	n := q.Generations()
	Expect(n).To(BeNumerically(">=", 8))
	return n, true
}

func offered[T any](s *subject, name string) (T, bool) {
	t, ok := s.Backend.(T)
	if !ok {
		AddReportEntry("the backend is no backend." + name)
	}
	return t, ok
}

// expectNoVerdict holds that err says nothing about the lease.
func expectNoVerdict(err error) {
	GinkgoHelper()
	Expect(err).To(HaveOccurred())
	for _, verdict := range []error{backend.ErrFenced, backend.ErrLeaseExpired, backend.ErrLeaseHeld, backend.ErrInvalidExitMode} {
		Expect(err).NotTo(MatchError(verdict))
	}
}
