package conformance

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

// Transaction is one that a backend's Checkpoint can be part of.
type Transaction struct {
	// Context is derived from the one that the transaction was begun with. A
	// Checkpoint under it is part of the transaction.
	Context context.Context

	Commit   func() error
	Rollback func() error
}

// RunTransactionSuite returns the suite of a [backend.Transactor] as a tree for
// Ginkgo's Describe, beside that of [RunSuite]. It calls newBackend once for each
// spec, and begin for each transaction on the store of that backend. One that a spec
// leaves open is rolled back after it.
func RunTransactionSuite(newBackend func() backend.Backend, begin func(context.Context, backend.Backend) Transaction) func() {
	return func() {
		s := &subject{}
		BeforeEach(func() { s.open(newBackend) })
		transactionSpecs(s, func(ctx context.Context) Transaction {
			GinkgoHelper()
			// One that outlives the spec's context can be rolled back after it.
			t := begin(context.WithoutCancel(ctx), s.Backend)
			DeferCleanup(func() { _ = t.Rollback() })
			return t
		})
	}
}

func transactionSpecs(s *subject, begin func(context.Context) Transaction) {
	It("makes a Checkpoint tentative", limit, func(ctx SpecContext) {
		t, ok := s.Backend.(backend.Transactor)
		Expect(ok).To(BeTrue(), "the backend is no backend.Transactor")
		Expect(t.Tentative(begin(ctx).Context)).To(BeTrue())
		Expect(t.Tentative(ctx)).To(BeFalse())
	})

	It("stores state and expiry when it commits, and shows them to nobody before", limit, func(ctx SpecContext) {
		owner := s.take(ctx, newWorkID(), "a", lapsed)
		s.storeLapsed(ctx, owner, "before")
		t := begin(ctx)
		Expect(s.Checkpoint(t.Context, owner, []byte("inside"), live)).To(Succeed())
		Expect(s.read(ctx, owner).State).To(Equal([]byte("before")))
		Expect(t.Commit()).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a", State: "inside"}))
	})

	It("leaves a live lease as it was when it is rolled back", limit, func(ctx SpecContext) {
		owner := s.take(ctx, newWorkID(), "a", live)
		s.store(ctx, owner, "before")
		t := begin(ctx)
		Expect(s.Checkpoint(t.Context, owner, []byte("inside"), lapsed)).To(Succeed())
		Expect(t.Rollback()).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: "a", State: "before"}))
	})

	It("revives no lapsed lease when it is rolled back", limit, func(ctx SpecContext) {
		owner := s.take(ctx, newWorkID(), "a", lapsed)
		t := begin(ctx)
		Expect(s.Checkpoint(t.Context, owner, []byte("inside"), live)).To(Succeed())
		Expect(t.Rollback()).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Exit: backend.ExitExpired, Holder: "a"}))
	})

	It("stores the last of several checkpoints", limit, func(ctx SpecContext) {
		owner := s.take(ctx, newWorkID(), "a", live)
		t := begin(ctx)
		for _, state := range []string{"one", "two", ""} {
			Expect(s.Checkpoint(t.Context, owner, []byte(state), live)).To(Succeed())
		}
		Expect(s.Checkpoint(t.Context, owner, []byte("three"), live)).To(Succeed())
		Expect(t.Commit()).To(Succeed())
		Expect(s.read(ctx, owner).State).To(Equal([]byte("three")))
	})

	DescribeTable("gives the verdict of any Checkpoint, and changes nothing",
		func(ctx SpecContext, want error, arrange func(context.Context, *subject) situation) {
			at := arrange(ctx, s)
			t := begin(ctx)
			Expect(s.Checkpoint(t.Context, at.used, []byte("zombie's"), live)).To(MatchError(want))
			Expect(t.Commit()).To(Succeed(), "a verdict does not end the transaction")
			Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
		},
		Entry("with a stale token of a live lease", limit, fenced, takenOver(stay)),
		Entry("with a stale token of a released lease", limit, fenced, takenOver(leave)),
		Entry("of another holder", limit, fenced, renamed(stay)),
		Entry("after its holder's Release", limit, expired, own(leave)),
	)

	It("is fenced where the row is gone", limit, func(ctx SpecContext) {
		t := begin(ctx)
		Expect(s.Checkpoint(t.Context, forgotten(ctx, s).used, nil, live)).To(MatchError(fenced))
	})

	It("is fenced by a takeover that came after it had begun", limit, func(ctx SpecContext) {
		t := begin(ctx)
		at := takenOver(stay)(ctx, s)
		Expect(s.Checkpoint(t.Context, at.used, []byte("zombie's"), live)).To(MatchError(fenced))
		Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
	})

	It("keeps others from the lease between the call and its end", limit, func(ctx SpecContext) {
		for range 20 {
			owner := s.take(ctx, newWorkID(), "a", lapsed)
			t := begin(ctx)
			Expect(s.Checkpoint(t.Context, owner, []byte("inside"), live)).To(Succeed())
			asked, answer := make(chan struct{}), make(chan error, 1)
			go func() {
				defer GinkgoRecover()
				defer close(answer) // after a panic nobody waits
				close(asked)
				_, err := s.Acquire(ctx, owner.WorkID, "b", live)
				answer <- err
			}()
			<-asked
			Expect(t.Commit()).To(Succeed())
			Expect(<-answer).To(MatchError(backend.ErrLeaseHeld))
		}
	})

	It("is not looked at by Renew and ReadCheckpoint", limit, func(ctx SpecContext) {
		owner := s.take(ctx, newWorkID(), "a", live)
		s.store(ctx, owner, "before")
		t := begin(ctx)
		Expect(s.Renew(t.Context, owner, lapsed)).To(Succeed())
		Expect(s.Checkpoint(t.Context, owner, []byte("inside"), live)).To(Succeed())
		Expect(s.read(t.Context, owner).State).To(Equal([]byte("before")))
		Expect(t.Rollback()).To(Succeed())
		Expect(s.standing(ctx, owner)).To(Equal(standing{Exit: backend.ExitExpired, Holder: "a", State: "before"}))
	})

	DescribeTable("is refused by what cannot be part of it, and nothing is done",
		func(ctx SpecContext, do func(context.Context, backend.LeaseRecord) error) {
			at := own(stay)(ctx, s)
			t := begin(ctx)
			expectNoVerdict(do(t.Context, at.owner))
			Expect(t.Commit()).To(Succeed())
			Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
		},
		Entry("Release", limit, func(ctx context.Context, rec backend.LeaseRecord) error {
			return s.Release(ctx, rec, backend.ExitFinished)
		}),
		Entry("Forget", limit, func(ctx context.Context, rec backend.LeaseRecord) error { return s.Forget(ctx, rec) }),
		Entry("ForceRelease", limit, func(ctx context.Context, rec backend.LeaseRecord) error {
			if f, ok := offered[backend.ForceReleaser](s, "ForceReleaser"); ok {
				return f.ForceRelease(ctx, rec.WorkID, rec.FencingToken)
			}
			return errors.New("there is none")
		}),
	)

	It("is refused by Release after an invalid exit mode", limit, func(ctx SpecContext) {
		owner := s.take(ctx, newWorkID(), "a", live)
		Expect(s.Release(begin(ctx).Context, owner, backend.ExitNone)).To(MatchError(backend.ErrInvalidExitMode))
	})

	It("is refused by Acquire, which makes no row", limit, func(ctx SpecContext) {
		work := newWorkID()
		t := begin(ctx)
		_, err := s.Acquire(t.Context, work, "a", live)
		expectNoVerdict(err)
		Expect(t.Commit()).To(Succeed())
		Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitNone}))
	})

	It("is refused by Sweep, which deletes nothing", Serial, limit, func(ctx SpecContext) {
		at := own(lapse)(ctx, s)
		t := begin(ctx)
		n, err := s.Sweep(t.Context, backend.SweepOptions{Retention: -live, IncludeExpired: true})
		expectNoVerdict(err)
		Expect(n).To(BeZero())
		Expect(t.Commit()).To(Succeed())
		Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
	})

	It("takes nothing more once it has ended", limit, func(ctx SpecContext) {
		for _, end := range []func(Transaction) error{
			func(t Transaction) error { return t.Commit() },
			func(t Transaction) error { return t.Rollback() },
		} {
			at := own(stay)(ctx, s)
			t := begin(ctx)
			Expect(end(t)).To(Succeed())
			expectNoVerdict(s.Checkpoint(t.Context, at.owner, []byte("late"), live))
			Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
		}
	})

	It("7a: gives the error of a done context, and changes nothing", limit, func(ctx SpecContext) {
		at := own(stay)(ctx, s)
		t := begin(ctx)
		done, cancel := context.WithCancel(t.Context)
		cancel()
		Expect(s.Checkpoint(done, at.owner, []byte("inside"), lapsed)).To(MatchError(context.Canceled))
		_ = t.Commit() // what a context ended may have ended the transaction, too
		Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
	})

	It("refuses a checkpoint that was overtaken, without a verdict", limit, func(ctx SpecContext) {
		if _, ok := s.generations(); ok {
			at := own(stay)(ctx, s)
			Expect(s.Checkpoint(backend.WithGeneration(ctx, 2), at.owner, []byte("owner's"), live)).To(Succeed())
			t := begin(ctx)
			expectNoVerdict(s.Checkpoint(backend.WithGeneration(t.Context, 1), at.owner, []byte("late"), live))
			Expect(t.Rollback()).To(Succeed())
			Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
		}
	})
}

// tentativeSpecs hold for a backend that may be part of transactions, outside of
// them.
func tentativeSpecs(s *subject) {
	It("is said of no call outside a transaction", limit, func(ctx SpecContext) {
		if t, ok := offered[backend.Transactor](s, "Transactor"); ok {
			Expect(t.Tentative(ctx)).To(BeFalse())
			Expect(t.Tentative(backend.WithGeneration(ctx, 1))).To(BeFalse())
		}
	})
}
