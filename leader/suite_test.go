package leader_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/leader"
)

func TestLeader(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "leader")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

const (
	ttl     = 30 * time.Second
	idle    = 4 * time.Second
	backoff = 7 * time.Second
	work    = "scheduler"
)

var (
	errWork = errors.New("work failed")
	errNet  = errors.New("network is down")
)

// stage is where Elect plays: a memory backend that can fail, and what the
// callbacks told. Each spec has one, inside its bubble.
type stage struct {
	faults  *inject.Faults
	backend backend.Backend
	lease   worklease.Lease
	cfg     leader.Config

	mu   sync.Mutex
	told []string
	with []context.Context
}

func newStage() *stage {
	s := &stage{}
	s.faults, s.backend = inject.Around(memory.New())
	s.lease = s.holder("us")
	s.cfg = leader.Config{
		IdleInterval:    idle,
		BackoffInterval: backoff,
		OnElected:       s.tell("elected"),
		OnLost:          s.tell("lost"),
		OnRelinquished:  s.tell("relinquished"),
	}
	return s
}

func (s *stage) holder(id string) worklease.Lease {
	lease, err := worklease.New(s.backend, worklease.Config{TTL: ttl, HolderID: id})
	Expect(err).NotTo(HaveOccurred())
	return lease
}

// tell returns a callback that is kept as name.
func (s *stage) tell(name string) func(context.Context, worklease.Token) {
	return func(ctx context.Context, token worklease.Token) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if token.WorkID() != work || token.HolderID() != "us" {
			name += " with the wrong token"
		}
		s.told = append(s.told, name)
		s.with = append(s.with, ctx)
	}
}

func (s *stage) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// elect calls Elect and returns its error and how long it took.
func (s *stage) elect(ctx context.Context, fn func(context.Context) error) (time.Duration, error) {
	start := time.Now()
	err := leader.Elect(ctx, s.lease, work, s.cfg, fn)
	return time.Since(start), err
}

// left returns how the work was left, as its next holder sees it. The lease must
// be free.
func (s *stage) left() worklease.ExitMode {
	GinkgoHelper()
	next := s.holder("next")
	token, err := next.Acquire(context.Background(), work)
	Expect(err).NotTo(HaveOccurred())
	prior, err := next.ReadCheckpoint(context.Background(), token)
	Expect(err).NotTo(HaveOccurred())
	return prior.PrevExit
}

// rob takes the work away from whoever holds it.
func (s *stage) rob(token worklease.Token) {
	GinkgoHelper()
	Expect(s.lease.Forget(context.Background(), token)).To(Succeed())
}
