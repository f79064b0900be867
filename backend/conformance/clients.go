package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/aetomala/worklease/backend"
)

const clients = 8

func clientSpecs(s *subject) {
	It("get answers that the model gives to the same calls one by one", limit, func(ctx SpecContext) {
		for round := range 4 {
			shared := []*history{{workID: newWorkID()}, {workID: newWorkID()}}
			var all sync.WaitGroup
			for n := range clients {
				c := newClient(s, round, n)
				all.Go(func() {
					defer GinkgoRecover()
					for range 60 {
						c.step(ctx, shared[c.rnd.IntN(len(shared))])
					}
				})
			}
			all.Wait()
			for _, h := range shared {
				if text := h.unexplained(); text != "" {
					Fail(fmt.Sprintf("round %d of -ginkgo.seed=%d: %s", round, GinkgoRandomSeed(), text))
				}
			}
		}
	})
}

// client is one holder that does random operations, one after the other. What
// it does depends on Ginkgo's seed; what it meets depends on the others.
type client struct {
	*subject
	number  int
	holder  string
	rnd     *rand.Rand
	records map[*history][]backend.LeaseRecord
	states  int
}

func newClient(s *subject, round, number int) *client {
	return &client{
		subject: s,
		number:  number,
		holder:  fmt.Sprintf("client-%d", number),
		rnd:     rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(round*clients+number))),
		records: map[*history][]backend.LeaseRecord{},
	}
}

// step makes one call. A lease is let lapse by Renew alone, which needs a live
// one: so whoever was told that it is held can have met it live.
func (c *client) step(ctx context.Context, h *history) {
	records := c.records[h]
	if len(records) == 0 || c.rnd.IntN(4) == 0 {
		c.acquire(ctx, h)
		return
	}
	rec := records[max(c.rnd.IntN(len(records)), c.rnd.IntN(len(records)))]
	switch c.rnd.IntN(9) {
	case 0, 1:
		state := ""
		if c.rnd.IntN(4) > 0 {
			c.states++
			state = fmt.Sprintf("%s/%d", c.holder, c.states)
		}
		h.call(c.number, fmt.Sprintf("Checkpoint(%d, %q)", rec.FencingToken, state),
			func() error { return c.Checkpoint(ctx, rec, []byte(state), live) },
			func(m *model) error { return m.checkpoint(rec, state, true) })
	case 2, 3:
		ttl := []time.Duration{live, lapsed}[c.rnd.IntN(2)]
		h.call(c.number, fmt.Sprintf("Renew(%d, %v)", rec.FencingToken, ttl),
			func() error { return c.Renew(ctx, rec, ttl) },
			func(m *model) error { return m.renew(rec, ttl > 0) })
	case 4:
		mode := backend.ExitMode(c.rnd.IntN(6))
		h.call(c.number, fmt.Sprintf("Release(%d, %v)", rec.FencingToken, mode),
			func() error { return c.Release(ctx, rec, mode) },
			func(m *model) error { return m.release(rec, mode) })
	case 5:
		c.read(ctx, h, rec)
	case 6:
		h.call(c.number, fmt.Sprintf("Forget(%d)", rec.FencingToken),
			func() error { return c.Forget(ctx, rec) },
			func(m *model) error { return m.forget(rec) })
	case 7:
		if r, ok := c.Backend.(backend.Restorer); ok {
			h.call(c.number, fmt.Sprintf("Restore(%d)", rec.FencingToken),
				func() error { return r.Restore(ctx, rec) },
				func(m *model) error { return m.restore(rec) })
		}
	case 8:
		if f, ok := c.Backend.(backend.ForceReleaser); ok {
			h.call(c.number, fmt.Sprintf("ForceRelease(%d)", rec.FencingToken),
				func() error { return f.ForceRelease(ctx, h.workID, rec.FencingToken) },
				func(m *model) error { return m.forceRelease(rec) })
		}
	}
}

// acquire asks for the lease and, as a holder does, reads what was left.
func (c *client) acquire(ctx context.Context, h *history) {
	var rec backend.LeaseRecord
	err := h.ask(c.number, "Acquire",
		func() (answer string, err error) {
			rec, err = c.Acquire(ctx, h.workID, c.holder, live)
			return fmt.Sprint(rec.FencingToken), err
		},
		func(m *model) error {
			row, err := m.acquire(h.workID, c.holder, true)
			switch {
			case err != nil:
				return err
			case rec.FencingToken <= m.last:
				return errDiffers
			}
			m.last, row.token = rec.FencingToken, rec.FencingToken
			return nil
		})
	if err == nil {
		c.records[h] = append(c.records[h], rec)
		c.read(ctx, h, rec)
	}
}

// errDiffers is the model's where the backend's answer holds something else.
var errDiffers = errors.New("another answer")

func (c *client) read(ctx context.Context, h *history, rec backend.LeaseRecord) {
	var got backend.Checkpoint
	_ = h.ask(c.number, fmt.Sprintf("ReadCheckpoint(%d)", rec.FencingToken),
		func() (answer string, err error) {
			got, err = c.ReadCheckpoint(ctx, rec)
			return fmt.Sprintf("%q after %v by %q", got.State, got.PrevExit, got.PrevHolderID), err
		},
		func(m *model) error {
			want, err := m.read(rec)
			if err == nil && !equal(got, want) {
				return errDiffers
			}
			return err
		})
}

func equal(a, b backend.Checkpoint) bool {
	return string(a.State) == string(b.State) && (a.State == nil) == (b.State == nil) &&
		a.PrevExit == b.PrevExit && a.PrevHolderID == b.PrevHolderID
}

// history is what clients did to one work ID, in the order in which their calls
// began and ended.
type history struct {
	workID string

	mu     sync.Mutex
	events []event
}

// event is the beginning of a call, or its end.
type event struct {
	of    *attempt
	ended bool
}

// attempt is a call, with the answer that it got and the model's.
type attempt struct {
	client int
	text   string
	answer string // for people
	err    error
	model  func(*model) error
}

func (a *attempt) String() string {
	if a.err != nil {
		return fmt.Sprintf("client %d: %s -> %v", a.client, a.text, a.err)
	}
	return fmt.Sprintf("client %d: %s -> %s", a.client, a.text, cmp.Or(a.answer, "done"))
}

// call makes a call and keeps it.
func (h *history) call(client int, text string, do func() error, model func(*model) error) {
	_ = h.ask(client, text, func() (string, error) { return "", do() }, model)
}

// ask is call where there is an answer.
func (h *history) ask(client int, text string, do func() (string, error), model func(*model) error) error {
	a := &attempt{client: client, text: text, model: model}
	h.note(event{of: a})
	a.answer, a.err = do()
	h.note(event{of: a, ended: true})
	return a.err
}

func (h *history) note(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// unexplained looks for an order of all calls in which the model gives each the
// answer that it got, with each call between its beginning and its end. It
// returns nothing where there is one, and else the calls up to the first that
// fits into none.
//
// It keeps every standing that the calls which have ended can have led to, and
// lets calls that are out take effect only when one of them ends (G. Lowe,
// "Testing for linearizability", 2017: just-in-time linearization).
func (h *history) unexplained() string {
	reached := map[point]bool{{}: true}
	out := map[int]*attempt{} // by client, each of which makes one call at a time
	for i, e := range h.events {
		if !e.ended {
			out[e.of.client] = e.of
			continue
		}
		reached = h.after(reached, out, e.of.client)
		delete(out, e.of.client)
		if len(reached) == 0 {
			return h.tell(i)
		}
	}
	return ""
}

// point is where an order of calls leads.
type point struct {
	row   modelRow
	found bool
	last  uint64 // the greatest token
	early uint8  // the clients whose call is in the order and has not ended
}

// after returns the points that lie behind the end of client's call.
func (h *history) after(from map[point]bool, out map[int]*attempt, client int) map[point]bool {
	ended := map[point]bool{}
	seen := maps.Clone(from)
	for next := slices.Collect(maps.Keys(from)); len(next) > 0; {
		p := next[len(next)-1]
		next = next[:len(next)-1]
		if p.early&(1<<client) != 0 {
			p.early &^= 1 << client
			ended[p] = true
			continue
		}
		for _, a := range out {
			if q, ok := h.take(p, a); ok && !seen[q] {
				seen[q] = true
				next = append(next, q)
			}
		}
	}
	return ended
}

// take puts a next in the order, if it is not in it and the answer is the model's.
func (h *history) take(p point, a *attempt) (point, bool) {
	if p.early&(1<<a.client) != 0 {
		return p, false
	}
	m := model{rows: map[string]*modelRow{}, last: p.last}
	if p.found {
		m.rows[h.workID] = &p.row
	}
	want := a.model(&m)
	if (a.err == nil) != (want == nil) || !errors.Is(a.err, want) {
		return p, false
	}
	q := point{last: m.last, early: p.early | 1<<a.client}
	if row := m.rows[h.workID]; row != nil {
		q.row, q.found = *row, true
	}
	return q, true
}

// tell shows what came before the event that fits into no order.
func (h *history) tell(event int) string {
	lines := []string{fmt.Sprintf("work ID %s, %d events; no order explains the last of these:", h.workID, len(h.events))}
	for _, e := range h.events[max(0, event-60) : event+1] {
		verb := "begins"
		if e.ended {
			verb = "ends"
		}
		lines = append(lines, fmt.Sprintf("%-6s %v", verb, e.of))
	}
	return strings.Join(lines, "\n")
}
