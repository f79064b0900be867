// Package batch sends renewals to a backend, many in one step where it can.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/bounded"
)

// most bounds a batch: it holds its rows' locks until its last row is written.
const most = 500

// Sender sends renewals. It is safe for concurrent use.
type Sender struct {
	backend backend.Backend
	batcher backend.BatchRenewer // nil: each renewal is sent alone
	ttl     time.Duration
}

// New returns a Sender of renewals by ttl.
func New(b backend.Backend, ttl time.Duration) *Sender {
	s := &Sender{backend: b, ttl: ttl}
	s.batcher, _ = b.(backend.BatchRenewer)
	return s
}

// Batches reports whether renewals that are sent together go in one step.
func (s *Sender) Batches() bool { return s.batcher != nil }

// Call is one renewal on its way.
type Call struct {
	Record backend.LeaseRecord
	Ctx    context.Context // what the call runs on when it goes alone
	Most   int             // how many may go together with it, itself counted; 0: any number

	// Answer is told the outcome, once, on the call's goroutine; busy says that the
	// call was part of a batch that could not decide this one. It must not block.
	Answer func(err error, busy bool)

	mu    sync.Mutex
	group *group // once it is sent
	left  bool
}

// group is what goes to the backend in one step.
type group struct {
	calls  []*Call
	cancel context.CancelFunc
	wanted atomic.Int32 // calls whose answer somebody waits for
	size   atomic.Int32
}

// Together returns how many calls went together with c, itself counted.
func (c *Call) Together() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group == nil {
		return 1
	}
	return int(c.group.size.Load())
}

// Leave says that nobody waits for the answer any more: a call that was not sent
// is not, and what was sent goes on for those who do wait.
func (c *Call) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return
	}
	c.left = true
	if c.group != nil {
		c.group.leave()
	}
}

func (g *group) leave() {
	if g.wanted.Add(-1) == 0 {
		g.cancel()
	}
}

// Send sends calls, each step on a goroutine of its own that ends when the backend
// comes back. It does not block.
func (s *Sender) Send(calls []*Call) {
	var together []*Call
	room := most
	for _, c := range calls {
		limit := s.limit(c)
		if room = min(room, limit-len(together)); room <= 0 {
			s.step(together...)
			together, room = nil, limit
		}
		together = append(together, c)
		room--
	}
	if len(together) > 0 {
		s.step(together...)
	}
}

// limit returns how large a batch with c in it may be.
func (s *Sender) limit(c *Call) int {
	switch {
	case s.batcher == nil:
		return 1
	case c.Most > 0:
		return min(c.Most, most)
	}
	return most
}

// step sends calls in one step.
func (s *Sender) step(calls ...*Call) {
	ctx := context.Background()
	if len(calls) == 1 {
		ctx = calls[0].Ctx // a batch belongs to nobody
	}
	g := &group{}
	ctx, g.cancel = context.WithCancel(ctx)
	g.wanted.Store(1) // until all have joined
	for _, c := range calls {
		g.join(c)
	}
	g.size.Store(int32(len(g.calls)))
	g.leave()
	go func() {
		bounded.Grow()
		defer g.cancel()
		switch len(g.calls) {
		case 0:
		case 1:
			g.calls[0].Answer(s.backend.Renew(ctx, g.calls[0].Record, s.ttl), false)
		default:
			s.batch(ctx, g.calls)
		}
	}()
}

func (g *group) join(c *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		c.group = g
		g.wanted.Add(1)
		g.calls = append(g.calls, c)
	}
}

func (s *Sender) batch(ctx context.Context, calls []*Call) {
	records := make([]backend.LeaseRecord, len(calls))
	for i, c := range calls {
		records[i] = c.Record
	}
	verdicts, err := s.batcher.RenewBatch(ctx, records, s.ttl)
	if err == nil && len(verdicts) != len(calls) {
		err = fmt.Errorf("%d verdicts on %d leases", len(verdicts), len(calls))
	}
	for i, c := range calls {
		if err != nil {
			c.Answer(err, false)
		} else {
			c.Answer(verdicts[i], undecided(verdicts[i]))
		}
	}
}

func undecided(verdict error) bool {
	return verdict != nil && !errors.Is(verdict, backend.ErrFenced) && !errors.Is(verdict, backend.ErrLeaseExpired)
}
