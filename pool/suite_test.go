package pool_test

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
	"github.com/aetomala/worklease/pool"
)

func TestPool(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "pool")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	// An acquisition that Run gave up is settled beside it, within the TTL.
	DeferCleanup(func() { Eventually(gleak.Goroutines, 20*time.Second).ShouldNot(gleak.HaveLeaked(before)) })
})

const (
	ttl     = 30 * time.Second
	idle    = 4 * time.Second
	rerun   = 5 * time.Second
	backoff = 7 * time.Second
)

var (
	bg      = context.Background()
	errWork = errors.New("work failed")
	errNet  = errors.New("network is down")
)

// site is where pools work: a memory backend that can fail, and an observer that
// keeps what it is told. Each spec has one, inside its bubble.
type site struct {
	faults  *inject.Faults
	backend backend.Backend
	told    *diary
	cfg     pool.Config
}

func newSite(ids ...string) *site {
	s := &site{told: &diary{}}
	s.faults, s.backend = inject.Around(memory.New())
	s.cfg = pool.Config{
		WorkIDs:         ids,
		IdleInterval:    idle,
		RerunInterval:   rerun,
		BackoffInterval: backoff,
		Observer:        s.told,
	}
	return s
}

func (s *site) holder(id string) worklease.Lease {
	GinkgoHelper()
	return holder(s.backend, id, ttl)
}

func holder(b backend.Backend, id string, ttl time.Duration) worklease.Lease {
	GinkgoHelper()
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: id})
	Expect(err).NotTo(HaveOccurred())
	return lease
}

func (s *site) pool(fn pool.WorkFn) *pool.Pool {
	GinkgoHelper()
	p, err := pool.New(s.holder("us"), s.cfg, fn)
	Expect(err).NotTo(HaveOccurred())
	return p
}

// left returns what the next holder of id is told. The lease must be free.
func (s *site) left(id string) worklease.Checkpoint {
	GinkgoHelper()
	next := s.holder("next")
	token, err := next.Acquire(bg, id)
	Expect(err).NotTo(HaveOccurred())
	prior, err := next.ReadCheckpoint(bg, token)
	Expect(err).NotTo(HaveOccurred())
	return prior
}

// diary is a pool.Observer that keeps what it is told, in order.
type diary struct {
	mu    sync.Mutex
	pages []page
}

type page struct {
	Name  string // of the method without its OnSlot
	ID    string
	At    time.Time
	Ctx   context.Context
	Event any
}

var _ pool.Observer = (*diary)(nil)

func (d *diary) write(ctx context.Context, name, id string, event any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages = append(d.pages, page{name, id, time.Now(), ctx, event})
}

func (d *diary) all() []page {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.pages)
}

// names returns what was told, in order, without the Acquired.
func (d *diary) names() []string {
	names := []string{}
	for _, p := range d.all() {
		if p.Name != "Acquired" {
			names = append(names, p.Name)
		}
	}
	return names
}

// of returns the pages with one name.
func (d *diary) of(name string) []page {
	return slices.DeleteFunc(d.all(), func(p page) bool { return p.Name != name })
}

func (d *diary) OnSlotAcquired(ctx context.Context, e pool.SlotAcquiredEvent) {
	d.write(ctx, "Acquired", e.WorkID, e)
}

func (d *diary) OnSlotLost(ctx context.Context, e pool.SlotLostEvent) {
	d.write(ctx, "Lost", e.WorkID, e)
}

func (d *diary) OnSlotBackoff(ctx context.Context, e pool.SlotBackoffEvent) {
	d.write(ctx, "Backoff", e.WorkID, e)
}

func (d *diary) OnSlotDead(ctx context.Context, e pool.SlotDeadEvent) {
	d.write(ctx, "Dead", e.WorkID, e)
}

func (d *diary) OnSlotRetired(ctx context.Context, e pool.SlotRetiredEvent) {
	d.write(ctx, "Retired", e.WorkID, e)
}
