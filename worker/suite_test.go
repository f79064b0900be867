package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/worker"
)

func TestWorker(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "worker")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

const (
	work  = "work"
	ttl   = 10 * time.Second
	bound = 30 * time.Second // of specs on real time
)

// The holders: z had the lease before, a runs, b comes after.
const (
	before = "z"
	runs   = "a"
	after  = "b"
)

var (
	errWork  = errors.New("the work failed")
	errStore = errors.New("the store refused")
)

func newLease(b backend.Backend, holder string) worklease.Lease {
	GinkgoHelper()
	return newObserved(b, holder, nil)
}

func newObserved(b backend.Backend, holder string, o worklease.LeaseObserver) worklease.Lease {
	GinkgoHelper()
	l, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: holder, Observer: o})
	Expect(err).NotTo(HaveOccurred())
	return l
}

func newRunner(cfg worker.RunnerConfig) *worker.Runner {
	GinkgoHelper()
	r, err := worker.NewRunner(cfg)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// run runs fn on work as holder a.
func run(ctx context.Context, b backend.Backend, fn worker.WorkFn) error {
	GinkgoHelper()
	return newRunner(worker.RunnerConfig{Lease: newLease(b, runs), WorkFn: fn}).Run(ctx, work)
}

// returns is a WorkFn that does nothing else.
func returns(state []byte, err error) worker.WorkFn {
	return func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) { return state, err }
}

// never is a WorkFn that must not be entered.
func never(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
	defer GinkgoRecover()
	Fail("the work function was entered")
	return nil, nil
}

// leave lets holder z store "old" and leave in mode; ExitExpired lets it crash,
// ExitNone lets it never have been.
func leave(b backend.Backend, mode worklease.ExitMode) {
	GinkgoHelper()
	ctx := context.Background()
	if mode == worklease.ExitNone {
		return
	}
	rec, err := b.Acquire(ctx, work, before, ttl)
	Expect(err).NotTo(HaveOccurred())
	Expect(b.Checkpoint(ctx, rec, []byte("old"), ttl)).To(Succeed())
	if mode == worklease.ExitExpired {
		Expect(b.Renew(ctx, rec, -ttl)).To(Succeed())
		return
	}
	Expect(b.Release(ctx, rec, mode)).To(Succeed())
}

// next takes the lease for holder b and returns what it finds. Inside a bubble it
// waits until the lease has lapsed, where it was not left.
func next(b backend.Backend) worklease.Checkpoint {
	GinkgoHelper()
	ctx := context.Background()
	l := newLease(b, after)
	token, err := l.Acquire(ctx, work, worklease.WithWaitForLease(), worklease.WithPollInterval(100*time.Millisecond))
	Expect(err).NotTo(HaveOccurred())
	cp, err := l.ReadCheckpoint(ctx, token)
	Expect(err).NotTo(HaveOccurred())
	return cp
}

// isFree holds that the lease can be taken at this moment.
func isFree(b backend.Backend) {
	GinkgoHelper()
	rec, err := b.Acquire(context.Background(), work, "probe", -ttl)
	Expect(err).NotTo(HaveOccurred())
	Expect(b.(backend.Restorer).Restore(context.Background(), rec)).To(Succeed())
}

// fence removes the lease of token, as a successor that forgot it would.
func fence(b backend.Backend, token worklease.Token) {
	GinkgoHelper()
	Expect(b.Forget(context.Background(), record(token))).To(Succeed())
}

func record(token worklease.Token) backend.LeaseRecord {
	return backend.LeaseRecord{WorkID: token.WorkID(), HolderID: token.HolderID(), FencingToken: token.FencingToken()}
}

// left is a Checkpoint as the next holder should find it.
func left(state string, exit worklease.ExitMode, holder string) worklease.Checkpoint {
	cp := worklease.Checkpoint{PrevExit: exit, PrevHolderID: holder}
	if state != "" {
		cp.State = []byte(state)
	}
	return cp
}
