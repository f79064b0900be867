package worklease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"
	"github.com/onsi/gomega/types"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
)

// childEnv makes the test binary be the busy process of case 2c.
const childEnv = "WORKLEASE_TEST_BUSY_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := holdWhileBusy(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestWorklease(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "worklease")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

const ttl = 10 * time.Second

var errNet = errors.New("connection reset")

// hang ignores its context for longer than any spec looks.
var hang = inject.Late(30 * time.Minute)

// background is a context for bubbles, where that of a spec cannot be used.
var background = context.Background()

// inBubble makes a spec's body of one that runs in a bubble.
func inBubble(body func()) func() {
	return func() { bubble.Run(body) }
}

// newLease returns a Lease for holder with the suite's TTL.
func newLease(b backend.Backend, holder string, observers ...worklease.LeaseObserver) worklease.Lease {
	cfg := worklease.Config{TTL: ttl, HolderID: holder}
	for _, o := range observers {
		cfg.Observer = o
	}
	lease, err := worklease.New(b, cfg)
	Expect(err).NotTo(HaveOccurred())
	return lease
}

func acquire(lease worklease.Lease, workID string, opts ...worklease.AcquireOption) worklease.Token {
	token, err := lease.Acquire(background, workID, opts...)
	Expect(err).NotTo(HaveOccurred())
	return token
}

func read(lease worklease.Lease, token worklease.Token) worklease.Checkpoint {
	cp, err := lease.ReadCheckpoint(background, token)
	Expect(err).NotTo(HaveOccurred())
	return cp
}

// failure returns the error of an Acquire.
func failure(_ worklease.Token, err error) error { return err }

// within returns a context that ends after d.
func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(background, d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// settled waits, in a bubble, until only time could change anything.
func settled() { synctest.Wait() }

// matchNoSentinel matches an error that is no verdict and no context's error.
func matchNoSentinel() types.GomegaMatcher {
	return And(HaveOccurred(), Not(Or(
		MatchError(worklease.ErrFenced), MatchError(worklease.ErrLeaseHeld), MatchError(worklease.ErrLeaseExpired),
		MatchError(worklease.ErrInvalidExitMode), MatchError(worklease.ErrConfigInvalid),
		MatchError(context.Canceled), MatchError(context.DeadlineExceeded),
	)))
}

// renewing returns how many goroutines belong to renewals.
func renewing() int {
	stacks := make([]byte, 1<<20)
	n := 0
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "batch.(*Sender).") || strings.Contains(stack, "worklease.(*renewal).") {
			n++
		}
	}
	return n
}

// unrestoring hides what a backend can do beyond backend.Backend.
type unrestoring struct{ backend.Backend }
