package worklease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/internal/testkit/recorder"
	"github.com/aetomala/worklease/internal/watch"
)

// steady is a backoff of exactly 100 ms, so that times are exact.
var steady = worklease.WithRenewalBackoff(100*time.Millisecond, 100*time.Millisecond, 0)

// held is one lease under renewal, with everything to look at it.
type held struct {
	inner  *memory.Backend
	faults *inject.Faults
	seen   *recorder.Recorder
	lease  worklease.Lease
	token  worklease.Token
	start  time.Time // of the acquisition

	ctx    context.Context // the renewal context
	stop   func()
	cancel context.CancelFunc // of its parent
}

// company is how many leases more are renewed beside the one that a spec looks at.
var company int

// hold acquires a lease and starts its renewal, inside a bubble. It starts over
// fault, put on every Renew, nil for none.
func hold(fault inject.Fault, opts ...worklease.RenewalOption) *held {
	return holdFor(ttl, nil, fault, opts...)
}

// holdFor is hold with another TTL, and an observer unless that is nil.
func holdFor(ttl time.Duration, observer worklease.LeaseObserver, fault inject.Fault, opts ...worklease.RenewalOption) *held {
	h := &held{inner: memory.New(), seen: new(recorder.Recorder), start: time.Now()}
	faults, b := inject.Around(classifying{h.inner})
	faults.On(inject.Renew, fault)
	h.faults = faults
	if observer == nil {
		observer = about{h.seen, "w"}
	}
	var err error
	h.lease, err = worklease.New(b, worklease.Config{TTL: ttl, HolderID: "a", Observer: observer})
	Expect(err).NotTo(HaveOccurred())
	h.token = acquire(h.lease, "w")
	h.renew(opts...)
	for n := range company {
		ctx, cancel := context.WithCancel(background)
		_, stop := h.lease.StartRenewal(ctx, acquire(h.lease, fmt.Sprint("w", n)), append([]worklease.RenewalOption{steady}, opts...)...)
		context.AfterFunc(h.ctx, func() { stop(); cancel() })
	}
	return h
}

// classifying expects errNet to pass.
type classifying struct{ *memory.Backend }

func (classifying) Transient(err error) bool { return errors.Is(err, errNet) }

// about is a recorder of the events about one lease.
type about struct {
	*recorder.Recorder
	workID string
}

func (a about) OnAcquire(ctx context.Context, event worklease.AcquireEvent) {
	if event.WorkID == a.workID {
		a.Recorder.OnAcquire(ctx, event)
	}
}

func (a about) OnRenew(ctx context.Context, event worklease.RenewEvent) {
	if event.Token.WorkID() == a.workID {
		a.Recorder.OnRenew(ctx, event)
	}
}

func (a about) OnFenced(ctx context.Context, event worklease.FencedEvent) {
	if event.Token.WorkID() == a.workID {
		a.Recorder.OnFenced(ctx, event)
	}
}

// renew starts the renewal of h's token.
func (h *held) renew(opts ...worklease.RenewalOption) {
	parent, cancel := context.WithCancel(background)
	h.cancel = cancel
	h.ctx, h.stop = h.lease.StartRenewal(parent, h.token, append([]worklease.RenewalOption{steady}, opts...)...)
}

// end ends the run, as its caller should.
func (h *held) end() {
	h.stop()
	h.cancel()
}

// lostAfter waits for the loss and returns when it came, since the acquisition,
// and its cause.
func (h *held) lostAfter() (time.Duration, error) {
	<-h.ctx.Done()
	return time.Since(h.start), context.Cause(h.ctx)
}

// sent returns when each Renew was sent, since the acquisition.
func (h *held) sent() []time.Duration {
	var times []time.Duration
	for _, call := range h.faults.Calls(inject.Renew) {
		times = append(times, call.Start.Sub(h.start))
	}
	return times
}

func (h *held) renewEvents() []worklease.RenewEvent {
	return recorder.All[worklease.RenewEvent](h.seen)
}

// window returns the lease's window, since the acquisition, zero without one.
func (h *held) window() time.Duration {
	deadline, ok := worklease.LeaseWindow(h.ctx)
	if !ok {
		return 0
	}
	return deadline.Sub(h.start)
}

func attempts(events []worklease.RenewEvent) []int {
	var list []int
	for _, e := range events {
		list = append(list, e.Attempt)
	}
	return list
}

var _ = Describe("StartRenewal", func() {
	DescribeTable("renews at its interval, the first time at half of the window at the latest",
		func(want time.Duration, opts ...worklease.RenewalOption) {
			inBubble(func() {
				h := hold(nil, opts...)
				defer h.end()
				bubble.Sleep(10*want + 1)
				settled()
				var sent []time.Duration
				for n := range 10 {
					sent = append(sent, time.Duration(n+1)*want)
				}
				Expect(h.sent()).To(Equal(sent))
				Expect(h.ctx.Err()).NotTo(HaveOccurred())
			})()
		},
		Entry("half of the TTL by default", ttl/2),
		Entry("the option's", time.Second, worklease.WithRenewalInterval(time.Second)),
		Entry("half of the TTL for an option of zero", ttl/2, worklease.WithRenewalInterval(0)),
		Entry("half of the TTL for an option below zero", ttl/2, worklease.WithRenewalInterval(-time.Second)),
	)

	DescribeTable("3b: an interval above half of the TTL is taken as that", func(interval time.Duration) {
		inBubble(func() {
			h := hold(nil, worklease.WithRenewalInterval(interval))
			defer h.end()
			bubble.Sleep(3 * ttl)
			settled()
			Expect(h.sent()).To(HaveLen(6))
			Expect(h.ctx.Err()).NotTo(HaveOccurred())
		})()
	},
		Entry("3b: a little above", ttl/2+1),
		Entry("3b: above the TTL", 2*ttl),
	)

	It("keeps the lease from everybody else, and lets it lapse once it was stopped", inBubble(func() {
		h := hold(nil)
		defer h.end()
		other := newLease(h.inner, "b")
		for range 50 {
			bubble.Sleep(time.Second)
			Expect(failure(other.Acquire(background, "w"))).To(MatchError(worklease.ErrLeaseHeld))
		}
		h.stop()
		bubble.Sleep(ttl)
		acquire(other, "w")
	}))

	It("gives a context with its parent's values and end", inBubble(func() {
		type key struct{}
		parent, cancel := context.WithCancelCause(context.WithValue(background, key{}, "value"))
		lease := newLease(memory.New(), "a")
		renewCtx, stop := lease.StartRenewal(parent, acquire(lease, "w"))
		defer stop()
		Expect(renewCtx.Value(key{})).To(Equal("value"))
		cancel(errNet)
		Expect(context.Cause(renewCtx)).To(Equal(errNet))
		settled()
		Expect(renewing()).To(BeZero())
	}))

	It("fences the zero Token at once", inBubble(func() {
		renewCtx, stop := newLease(memory.New(), "a").StartRenewal(background, worklease.Token{})
		Expect(context.Cause(renewCtx)).To(Equal(worklease.ErrFenced))
		_, ok := worklease.LeaseWindow(renewCtx)
		Expect(ok).To(BeFalse())
		stop()
		stop()
	}))

	It("ends at once on a window that has closed already", inBubble(func() {
		h := hold(nil)
		h.end()
		bubble.Sleep(ttl)
		h.renew()
		settled()
		Expect(context.Cause(h.ctx)).To(MatchError(worklease.ErrLeaseWindowExhausted))
		Expect(h.sent()).To(BeEmpty())
	}))
})

var _ = Describe("The cause of a renewal context", causeSpecs)

func causeSpecs() {
	It("is ErrFenced after a takeover, at the first renewal, which is not retried", inBubble(func() {
		h := hold(inject.Fail(backend.ErrFenced))
		at, cause := h.lostAfter()
		Expect(at).To(Equal(ttl / 2))
		Expect(cause).To(MatchError(worklease.ErrFenced))
		Expect(cause).NotTo(MatchError(worklease.ErrLeaseWindowExhausted))
		bubble.Sleep(ttl)
		Expect(h.sent()).To(HaveLen(1))
	}))

	It("is ErrFenced when the row is gone", inBubble(func() {
		h := hold(nil)
		Expect(h.lease.Forget(background, h.token)).To(Succeed())
		at, cause := h.lostAfter()
		Expect(at).To(Equal(ttl / 2))
		Expect(cause).To(MatchError(worklease.ErrFenced))
	}))

	It("is ErrFenced when the lease is taken by force, before anybody has it", inBubble(func() {
		b := memory.New()
		lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: "a"})
		Expect(err).NotTo(HaveOccurred())
		token, err := lease.Acquire(background, "work")
		Expect(err).NotTo(HaveOccurred())
		renewCtx, stop := lease.StartRenewal(background, token)
		defer stop()
		Expect(b.ForceRelease(background, "work", token.FencingToken())).To(Succeed())
		<-renewCtx.Done()
		Expect(context.Cause(renewCtx)).To(MatchError(worklease.ErrFenced))
		Expect(lease.Checkpoint(background, token, nil)).To(MatchError(worklease.ErrFenced))
	}))

	It("is both ErrLeaseWindowExhausted and ErrLeaseExpired, at once, when the store says lapsed", inBubble(func() {
		h := hold(nil)
		Expect(h.lease.Release(background, h.token, worklease.ExitFinished)).To(Succeed())
		at, cause := h.lostAfter()
		Expect(at).To(Equal(ttl / 2))
		Expect(cause).To(And(MatchError(worklease.ErrLeaseWindowExhausted), MatchError(worklease.ErrLeaseExpired)))
		bubble.Sleep(ttl)
		Expect(h.sent()).To(HaveLen(1))
	}))

	It("is no verdict of the store when the window closed without one", inBubble(func() {
		_, cause := hold(hang).lostAfter()
		Expect(cause).To(MatchError(worklease.ErrLeaseWindowExhausted))
		Expect(cause).NotTo(Or(MatchError(worklease.ErrLeaseExpired), MatchError(worklease.ErrFenced)))
	}))

	It("wraps the last renewal's error", inBubble(func() {
		older := errors.New("older")
		_, cause := hold(inject.Sequence(inject.Fail(older), inject.Fail(errNet))).lostAfter()
		Expect(cause).To(And(MatchError(worklease.ErrLeaseWindowExhausted), MatchError(errNet)))
		Expect(cause).NotTo(MatchError(older))
	}))

	It("wraps no error from before a success", inBubble(func() {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Renew, inject.Sequence(inject.Fail(errNet), inject.Pass, hang))
		// So short that the window closes before the last call counts as failed.
		lease, err := worklease.New(b, worklease.Config{TTL: 150 * time.Millisecond, HolderID: "a"})
		Expect(err).NotTo(HaveOccurred())
		renewCtx, stop := lease.StartRenewal(background, acquire(lease, "w"),
			worklease.WithRenewalBackoff(time.Millisecond, time.Millisecond, 0))
		defer stop()
		<-renewCtx.Done()
		Expect(faults.Count(inject.Renew)).To(Equal(3))
		Expect(context.Cause(renewCtx)).To(MatchError(worklease.ErrLeaseWindowExhausted))
		Expect(context.Cause(renewCtx)).NotTo(MatchError(errNet))
	}))

	It("comes after the events that explain it", inBubble(func() {
		told, early := false, errNet
		b := memory.New()
		lease := newLease(b, "a", onFenced{do: func(ctx context.Context) {
			bubble.Sleep(time.Second)
			told, early = true, context.Cause(ctx)
		}})
		token := acquire(lease, "w")
		Expect(lease.Forget(background, token)).To(Succeed())
		renewCtx, stop := lease.StartRenewal(background, token)
		defer stop()
		<-renewCtx.Done()
		Expect(told).To(BeTrue())
		Expect(early).NotTo(HaveOccurred())
	}))
}

// onFenced is an observer that does one thing when fenced.
type onFenced struct {
	worklease.NoopObserver
	do func(context.Context)
}

func (o onFenced) OnFenced(ctx context.Context, _ worklease.FencedEvent) { o.do(ctx) }

var _ = Describe("The window", windowSpecs)

func windowSpecs() {
	It("1a: a Renew that blocks and ignores its ctx cannot hold it open", inBubble(func() {
		const short = 2 * time.Second
		at, cause := holdFor(short, nil, hang).lostAfter()
		Expect(at).To(Equal(short))
		Expect(cause).To(MatchError(worklease.ErrLeaseWindowExhausted))
	}))

	It("1c: a slow renewal moves it from its own start, not from its end", inBubble(func() {
		h := hold(inject.Sequence(inject.Slow(ttl*8/10), hang), worklease.WithRenewalInterval(ttl/10))
		at, cause := h.lostAfter()
		Expect(at).To(Equal(ttl/10 + ttl))
		Expect(cause).To(MatchError(worklease.ErrLeaseWindowExhausted))
	}))

	It("1d: one connection that is dead does not cost a lease that another can renew", inBubble(func() {
		h := hold(inject.Sequence(hang, inject.Pass))
		defer h.end()
		bubble.Sleep(3 * ttl)
		settled()
		Expect(h.ctx.Err()).NotTo(HaveOccurred())
		Expect(h.sent()[:2]).To(Equal([]time.Duration{ttl / 2, ttl/2 + ttl/4 + 100*time.Millisecond}))
		Expect(h.faults.Out(inject.Renew)).To(Equal(1))

		events := h.renewEvents()
		Expect(events[0]).To(And(
			HaveField("Attempt", 1),
			HaveField("Duration", ttl/4),
			HaveField("Err", MatchError(ContainSubstring("no reply within 2.5s"))),
		))
		Expect(events[1]).To(And(HaveField("Attempt", 2), HaveField("Err", Succeed())))
		Expect(events[2:]).To(HaveEach(HaveField("Attempt", 1)))
	}))

	It("waits at least 100 ms for a reply, however short the TTL", inBubble(func() {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Renew, inject.Slow(99*time.Millisecond))
		lease, err := worklease.New(b, worklease.Config{TTL: 300 * time.Millisecond, HolderID: "a"})
		Expect(err).NotTo(HaveOccurred())
		renewCtx, stop := lease.StartRenewal(within(time.Minute), acquire(lease, "w"))
		defer stop()
		bubble.Sleep(10 * time.Second)
		Expect(renewCtx.Err()).NotTo(HaveOccurred())
	}))

	It("never has more than two calls out", inBubble(func() {
		h := hold(hang, worklease.WithRenewalInterval(ttl/10))
		most := 0
		for h.ctx.Err() == nil {
			most = max(most, h.faults.Out(inject.Renew))
			bubble.Sleep(10 * time.Millisecond)
		}
		Expect(most).To(Equal(2))
		Expect(h.sent()).To(HaveLen(2))
	}))

	It("sends again as soon as one of two hanging calls has come back", inBubble(func() {
		h := hold(inject.Sequence(
			func(context.Context, inject.Call) error { bubble.Sleep(ttl * 7 / 10); return errNet },
			hang, inject.Pass,
		), worklease.WithRenewalInterval(ttl/10))
		defer h.end()
		bubble.Sleep(3 * ttl)
		Expect(h.ctx.Err()).NotTo(HaveOccurred())
		Expect(h.sent()[2]).To(Equal(ttl * 8 / 10))
	}))

	It("12b: an observer that sleeps for three TTLs cannot hold it open", inBubble(func() {
		h := holdFor(ttl, onRenew{do: func(worklease.RenewEvent) { bubble.Sleep(3 * ttl) }}, nil)
		at, cause := h.lostAfter()
		Expect(at).To(Equal(ttl/2 + ttl))
		Expect(cause).To(MatchError(worklease.ErrLeaseWindowExhausted))
	}))

	It("starts at the acquisition's start, whatever the store's clock says", inBubble(func() {
		h := hold(hang)
		Expect(h.window()).To(Equal(ttl))
	}))

	DescribeTable("is no longer than what the store granted, as long as that lies ahead",
		func(granted, first, lost time.Duration) {
			inBubble(func() {
				h := &held{start: time.Now()}
				faults, b := inject.Around(granting{memory.New(), granted})
				faults.On(inject.Renew, hang)
				h.faults = faults
				h.lease = newLease(b, "a")
				h.token = acquire(h.lease, "w")
				h.renew()
				Expect(h.window()).To(Equal(lost))
				at, _ := h.lostAfter()
				Expect(at).To(Equal(lost))
				Expect(h.sent()[0]).To(Equal(first))
			})()
		},
		Entry("less", 4*time.Second, 2*time.Second, 4*time.Second),
		Entry("more", time.Hour, ttl/2, ttl),
		Entry("a moment in the past", -time.Hour, ttl/2, ttl),
	)

	It("moves from a shorter grant to a full TTL with the first renewal", inBubble(func() {
		h := &held{start: time.Now()}
		h.lease = newLease(granting{memory.New(), 4 * time.Second}, "a")
		h.token = acquire(h.lease, "w")
		h.renew()
		defer h.end()
		bubble.Sleep(2*time.Second + 1)
		settled()
		Expect(h.window()).To(Equal(2*time.Second + ttl))
	}))

	DescribeTable("moves to a TTL after the start of a successful write", func(call func(*held) error) {
		inBubble(func() {
			h := hold(inject.Fail(errNet))
			bubble.Sleep(3 * time.Second)
			h.faults.On(inject.Checkpoint, inject.Slow(time.Second))
			h.faults.On(inject.Renew, inject.Times(1, inject.Slow(time.Second)))
			Expect(call(h)).To(Succeed())
			Expect(h.window()).To(Equal(3*time.Second + ttl))
			h.faults.On(inject.Renew, inject.Fail(errNet))
			at, _ := h.lostAfter()
			Expect(at).To(Equal(3*time.Second + ttl))
		})()
	},
		Entry("a Checkpoint", func(h *held) error { return h.lease.Checkpoint(background, h.token, nil) }),
		Entry("a direct Renew", func(h *held) error { return h.lease.Renew(background, h.token) }),
	)

	DescribeTable("does not move with anything else", func(call func(*held)) {
		inBubble(func() {
			h := hold(hang)
			bubble.Sleep(time.Second)
			call(h)
			Expect(h.window()).To(Equal(ttl))
		})()
	},
		Entry("a failed Checkpoint", func(h *held) {
			h.faults.On(inject.Checkpoint, inject.LoseReply(errNet))
			Expect(h.lease.Checkpoint(background, h.token, nil)).To(MatchError(errNet))
		}),
		Entry("a read", func(h *held) { read(h.lease, h.token) }),
		Entry("a write for another lease", func(h *held) {
			Expect(h.lease.Checkpoint(background, acquire(h.lease, "another"), nil)).To(Succeed())
		}),
		Entry("a write for a shorter TTL", func(h *held) {
			short, err := worklease.New(h.inner, worklease.Config{TTL: time.Second, HolderID: "a"})
			Expect(err).NotTo(HaveOccurred())
			Expect(short.Checkpoint(background, h.token, nil)).To(Succeed())
		}),
	)

	It("does not open again for a Checkpoint that revives the lease", inBubble(func() {
		h := hold(hang)
		<-h.ctx.Done()
		Expect(h.lease.Checkpoint(background, h.token, nil)).To(Succeed())
		Expect(h.window()).To(BeZero())
	}))

	It("moves with a reply that came too late to count, from its own start", inBubble(func() {
		h := hold(inject.Sequence(inject.Slow(4*time.Second), hang), worklease.WithRenewalInterval(time.Second))
		bubble.Sleep(5*time.Second - 1)
		Expect(h.window()).To(Equal(ttl))
		bubble.Sleep(2)
		Expect(h.window()).To(Equal(time.Second + ttl))
		Expect(h.renewEvents()).To(HaveExactElements(HaveField("Err", HaveOccurred())))
	}))

	It("moves with such a reply at once, also while an observer is slow", inBubble(func() {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Renew, inject.Sequence(inject.Slow(4*time.Second), hang))
		lease := newLease(b, "a", onRenew{do: func(worklease.RenewEvent) { bubble.Sleep(ttl) }})
		start := time.Now()
		renewCtx, stop := lease.StartRenewal(background, acquire(lease, "w"), worklease.WithRenewalInterval(time.Second))
		defer stop()
		<-renewCtx.Done()
		Expect(time.Since(start)).To(Equal(time.Second + ttl))
	}))
}

// granting is a backend whose expiry is its own.
type granting struct {
	backend.Backend
	granted time.Duration
}

func (g granting) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	record, err := g.Backend.Acquire(ctx, workID, holderID, ttl)
	record.ExpiresAt = time.Now().Add(g.granted)
	return record, err
}

// onRenew is an observer that does one thing on a renewal.
type onRenew struct {
	worklease.NoopObserver
	do func(worklease.RenewEvent)
}

func (o onRenew) OnRenew(_ context.Context, event worklease.RenewEvent) { o.do(event) }

var _ = Describe("A failed renewal", failureSpecs)

func failureSpecs() {
	It("2a: five network errors, then success: the lease lives", inBubble(func() {
		h := hold(inject.Times(5, inject.Fail(errNet)))
		defer h.end()
		bubble.Sleep(2 * ttl)
		settled()
		Expect(h.ctx.Err()).NotTo(HaveOccurred())
		Expect(attempts(h.renewEvents())).To(Equal([]int{1, 2, 3, 4, 5, 6, 1, 1}))
		Expect(renewing()).To(BeZero())
	}))

	It("2b: errors alone end the lease at its window, not after a sleep", inBubble(func() {
		const short = 3 * time.Second
		h := holdFor(short, nil, inject.Fail(errNet), worklease.WithRenewalBackoff(time.Second, 5*time.Second, 0))
		at, cause := h.lostAfter()
		Expect(at).To(Equal(short))
		Expect(cause).To(And(MatchError(worklease.ErrLeaseWindowExhausted), MatchError(errNet)))

		sent := h.faults.Count(inject.Renew)
		acquire(newLease(h.inner, "b"), "w")
		bubble.Sleep(time.Minute)
		Expect(h.faults.Count(inject.Renew)).To(Equal(sent))
	}))

	DescribeTable("is retried with the backoff", func(opt worklease.RenewalOption, waits ...time.Duration) {
		inBubble(func() {
			h := hold(inject.Fail(errNet), opt)
			<-h.ctx.Done()
			sent := h.sent()
			Expect(len(sent)).To(BeNumerically(">", len(waits)))
			for i, wait := range waits {
				Expect(sent[i+1] - sent[i]).To(Equal(wait))
			}
		})()
	},
		Entry("doubling up to its maximum", worklease.WithRenewalBackoff(100*time.Millisecond, 300*time.Millisecond, 0),
			100*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond),
		Entry("clamped, never refused", worklease.WithRenewalBackoff(time.Second, time.Millisecond, -1),
			time.Second, time.Second),
		Entry("of 100 ms at first by default", worklease.WithRenewalBackoff(0, 0, 0),
			100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond),
	)

	It("is retried by the end of its window at the latest, should a Checkpoint have moved that on", inBubble(func() {
		h := hold(inject.Times(1, inject.Fail(errNet)), worklease.WithRenewalBackoff(time.Hour, time.Hour, 0))
		defer h.end()
		bubble.Sleep(ttl - time.Second)
		Expect(h.lease.Checkpoint(background, h.token, nil)).To(Succeed())
		bubble.Sleep(time.Second + 1)
		settled()
		Expect(h.sent()).To(Equal([]time.Duration{ttl / 2, ttl}))
	}))

	It("is forgotten when its reply comes late but good", inBubble(func() {
		h := hold(inject.Times(1, inject.Slow(4*time.Second)),
			worklease.WithRenewalInterval(time.Second), worklease.WithRenewalBackoff(2*time.Second, 2*time.Second, 0))
		defer h.end()
		bubble.Sleep(6 * time.Second)
		settled()
		Expect(attempts(h.renewEvents())).To(Equal([]int{1, 1}))
	}))

	It("is reported as the error that it was, of this lease, under the renewal context", inBubble(func() {
		h := hold(inject.Times(1, inject.Fail(errNet)))
		defer h.end()
		bubble.Sleep(ttl * 3 / 4)
		settled()
		events := h.renewEvents()
		Expect(events).To(HaveExactElements(
			And(HaveField("Token", h.token), HaveField("Attempt", 1),
				HaveField("Err", And(MatchError(errNet), MatchError(`worklease: Renew: workID="w" holderID="a": connection reset`)))),
			Equal(worklease.RenewEvent{Token: h.token, Attempt: 2}),
		))
		for _, entry := range h.seen.Entries() {
			if entry.Name == "Renew" {
				Expect(entry.Ctx).To(BeIdenticalTo(h.ctx))
			}
		}
	}))

	It("counts the retries of the next failure from 1 again", inBubble(func() {
		h := hold(inject.Sequence(inject.Fail(errNet), inject.Pass, inject.Fail(errNet), inject.Fail(errNet), inject.Pass))
		defer h.end()
		bubble.Sleep(2 * ttl)
		settled()
		Expect(attempts(h.renewEvents())[:5]).To(Equal([]int{1, 2, 1, 2, 3}))
	}))

	DescribeTable("that is a verdict is told to both callbacks", func(err error, names ...string) {
		inBubble(func() {
			h := hold(inject.Fail(err))
			<-h.ctx.Done()
			settled()
			Expect(h.seen.Names()).To(Equal(append([]string{"Acquire"}, names...)))
			for _, e := range recorder.All[worklease.FencedEvent](h.seen) {
				Expect(e).To(Equal(worklease.FencedEvent{Token: h.token, Operation: worklease.OperationRenew}))
			}
		})()
	},
		Entry("fenced", backend.ErrFenced, "Renew", "Fenced"),
		Entry("expired", backend.ErrLeaseExpired, "Renew"),
	)
}

var _ = Describe("A renewal in company, in one batch,", func() {
	BeforeEach(func() {
		company = 2
		DeferCleanup(func() { company = 0 })
	})
	Describe("its cause", causeSpecs)
	Describe("its window", windowSpecs)
	Describe("failing", failureSpecs)
})

var _ = Describe("A slow observer", func() {
	It("delays its own lease's next renewal and no other's", inBubble(func() {
		faults, b := inject.Around(memory.New())
		lease := newLease(b, "a", onRenew{do: func(e worklease.RenewEvent) {
			if e.Token.WorkID() == "slow" {
				bubble.Sleep(ttl * 8 / 10)
			}
		}})
		slow, quick := acquire(lease, "slow"), acquire(lease, "quick")
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		slowCtx, stopSlow := lease.StartRenewal(ctx, slow)
		defer stopSlow()
		quickCtx, stopQuick := lease.StartRenewal(ctx, quick, worklease.WithRenewalInterval(time.Second))
		defer stopQuick()

		bubble.Sleep(ttl*3 + 1)
		settled()
		Expect(slowCtx.Err()).NotTo(HaveOccurred())
		Expect(quickCtx.Err()).NotTo(HaveOccurred())
		renewed := map[string]int{}
		for _, call := range faults.Calls(inject.Renew) {
			for _, id := range call.WorkIDs {
				renewed[id]++
			}
		}
		// slow at 5, 13, 21 and 29 s, quick each second
		Expect(renewed).To(Equal(map[string]int{"slow": 4, "quick": 30}))
	}))
})

// slowRecorder records renewals and takes its time over it.
type slowRecorder struct{ *recorder.Recorder }

func (r slowRecorder) OnRenew(ctx context.Context, event worklease.RenewEvent) {
	r.Recorder.OnRenew(ctx, event)
	bubble.Sleep(6 * time.Second)
}

var _ = Describe("stopRenewal", func() {
	It("ends the renewal and leaves its context alone, the window standing still until it closes", inBubble(func() {
		h := hold(nil)
		defer h.cancel()
		bubble.Sleep(ttl/2 + time.Second)
		h.stop()
		settled()
		Expect(renewing()).To(BeZero())
		Expect(h.window()).To(Equal(ttl/2 + ttl))

		Expect(h.lease.Renew(background, h.token)).To(Succeed())
		Expect(h.window()).To(Equal(ttl/2 + ttl))
		bubble.Sleep(ttl)
		Expect(h.window()).To(BeZero())
		Expect(h.ctx.Err()).NotTo(HaveOccurred())
		Expect(h.sent()).To(HaveLen(2))
	}))

	It("may be called often and from many goroutines", inBubble(func() {
		h := hold(nil)
		defer h.cancel()
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(h.stop)
		}
		calls.Wait()
		h.stop()
		bubble.Sleep(ttl)
		Expect(h.sent()).To(BeEmpty())
	}))

	It("does not wait for a Renew in flight, and nothing is reported of that", inBubble(func() {
		h := hold(inject.Late(time.Second))
		defer h.cancel()
		bubble.Sleep(ttl/2 + 1)
		Expect(h.faults.Out(inject.Renew)).To(Equal(1))
		before := time.Now()
		h.stop()
		Expect(time.Since(before)).To(BeZero())
		bubble.Sleep(time.Minute)
		Expect(h.faults.Out(inject.Renew)).To(BeZero())
		Expect(h.renewEvents()).To(BeEmpty())
		Expect(h.ctx.Err()).NotTo(HaveOccurred())
	}))

	It("does not wait for a callback that has begun", inBubble(func() {
		h := &held{inner: memory.New()}
		h.lease = newLease(h.inner, "a", onRenew{do: func(worklease.RenewEvent) { bubble.Sleep(time.Minute) }})
		h.token = acquire(h.lease, "w")
		h.renew()
		defer h.cancel()
		bubble.Sleep(ttl/2 + 1)
		before := time.Now()
		h.stop()
		Expect(time.Since(before)).To(BeZero())
	}))

	It("sends nothing any more, also when a renewal fell due during a callback", inBubble(func() {
		// Both events are then ready at once; often, since the choice is Go's.
		for range 20 {
			faults, b := inject.Around(memory.New())
			lease := newLease(b, "a", onRenew{do: func(worklease.RenewEvent) { bubble.Sleep(ttl * 6 / 10) }})
			ctx, cancel := context.WithCancel(background)
			_, stop := lease.StartRenewal(ctx, acquire(lease, "w"))
			bubble.Sleep(ttl/2 + 1)
			stop()
			bubble.Sleep(ttl)
			Expect(faults.Count(inject.Renew)).To(Equal(1))
			cancel()
		}
	}))

	It("reports nothing any more, also when a reply came during a callback", inBubble(func() {
		for range 20 { // as above
			var seen recorder.Recorder
			faults, b := inject.Around(memory.New())
			faults.On(inject.Renew, func(context.Context, inject.Call) error {
				bubble.Sleep(4 * time.Second)
				return backend.ErrFenced
			})
			lease := newLease(b, "a", slowRecorder{&seen})
			ctx, cancel := context.WithCancel(background)
			renewCtx, stop := lease.StartRenewal(ctx, acquire(lease, "w"), worklease.WithRenewalInterval(time.Second))
			bubble.Sleep(6 * time.Second)
			stop()
			bubble.Sleep(ttl)
			Expect(seen.Names()).To(Equal([]string{"Acquire", "Renew"}))
			Expect(renewCtx.Err()).NotTo(HaveOccurred())
			cancel()
		}
	}))

	It("may be called from a callback", inBubble(func() {
		stops := make(chan func(), 1)
		faults, b := inject.Around(memory.New())
		lease := newLease(b, "a", onRenew{do: func(worklease.RenewEvent) { (<-stops)() }})
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		renewCtx, stop := lease.StartRenewal(ctx, acquire(lease, "w"))
		stops <- stop
		bubble.Sleep(2 * ttl)
		Expect(faults.Count(inject.Renew)).To(Equal(1))
		Expect(renewCtx.Err()).NotTo(HaveOccurred())
	}))

	It("leaves the cause nil even when called from the callback of a loss", inBubble(func() {
		stops := make(chan func(), 1)
		faults, b := inject.Around(memory.New())
		faults.On(inject.Renew, inject.Fail(backend.ErrFenced))
		lease := newLease(b, "a", onFenced{do: func(context.Context) { (<-stops)() }})
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		renewCtx, stop := lease.StartRenewal(ctx, acquire(lease, "w"))
		stops <- stop
		bubble.Sleep(2 * ttl)
		Expect(faults.Count(inject.Renew)).To(Equal(1))
		Expect(context.Cause(renewCtx)).NotTo(HaveOccurred())
	}))

	It("does nothing after a loss", inBubble(func() {
		h := hold(inject.Fail(backend.ErrFenced))
		<-h.ctx.Done()
		h.stop()
		Expect(context.Cause(h.ctx)).To(MatchError(worklease.ErrFenced))
		Expect(h.window()).To(BeZero())
	}))

	It("13a: a thousand cycles leave no goroutine, and each lease was really renewed", inBubble(func() {
		const interval = 10 * time.Millisecond
		faults, b := inject.Around(memory.New())
		faults.On(inject.Renew, inject.Slow(3*time.Millisecond))
		lease := newLease(b, "a")
		before := runtime.NumGoroutine()
		for n := range 1000 {
			ctx, cancel := context.WithCancel(background)
			token := acquire(lease, "w")
			_, stop := lease.StartRenewal(ctx, token, worklease.WithRenewalInterval(interval))
			bubble.Sleep(2*interval + time.Millisecond) // one renewal done, one in flight
			stop()
			cancel()
			Expect(faults.Count(inject.Renew)).To(Equal(2 * (n + 1)))
			Expect(lease.Release(background, token, worklease.ExitFinished)).To(Succeed())
		}
		bubble.Sleep(3 * time.Millisecond)
		settled()
		Expect(renewing()).To(BeZero())
		Expect(runtime.NumGoroutine()).To(BeNumerically("<=", before))
	}))
})

var _ = Describe("A renewal that is never stopped", func() {
	DescribeTable("13b: has no goroutine 100 ms after the end, but in calls that hang",
		func(fault inject.Fault, end func(*held), cause types.GomegaMatcher) {
			inBubble(func() {
				h := hold(fault)
				bubble.Sleep(time.Second)
				settled()
				Expect(renewing()).To(BeZero())
				end(h)
				<-h.ctx.Done()
				bubble.Sleep(100 * time.Millisecond)
				settled()
				Expect(renewing()).To(Equal(h.faults.Out(inject.Renew)))
				Expect(context.Cause(h.ctx)).To(cause)
			})()
		},
		Entry("13b: fenced", inject.Fail(backend.ErrFenced), func(*held) {}, MatchError(worklease.ErrFenced)),
		Entry("13b: expired", inject.Fail(backend.ErrLeaseExpired), func(*held) {}, MatchError(worklease.ErrLeaseExpired)),
		Entry("13b: the window closed on errors", inject.Fail(errNet), func(*held) {}, MatchError(worklease.ErrLeaseWindowExhausted)),
		Entry("13b: the window closed on a call that hangs", hang, func(*held) {}, MatchError(worklease.ErrLeaseWindowExhausted)),
		Entry("13b: the parent was cancelled", nil, func(h *held) { h.cancel() }, MatchError(context.Canceled)),
		Entry("13b: the parent was cancelled while a call hangs", hang, func(h *held) {
			bubble.Sleep(ttl / 2)
			h.cancel()
		}, MatchError(context.Canceled)),
	)
})

var _ = Describe("LeaseWindow", func() {
	It("is found in contexts derived from the renewal context", inBubble(func() {
		h := hold(nil)
		defer h.end()
		derived, cancel := context.WithCancel(h.ctx)
		defer cancel()
		deadline, ok := worklease.LeaseWindow(derived)
		Expect(ok).To(BeTrue())
		Expect(deadline.Sub(h.start)).To(Equal(ttl))
	}))

	It("moves on with each renewal", inBubble(func() {
		h := hold(nil)
		defer h.end()
		bubble.Sleep(ttl/2 + 1)
		settled()
		Expect(h.window()).To(Equal(ttl/2 + ttl))
		bubble.Sleep(ttl / 2)
		settled()
		Expect(h.window()).To(Equal(ttl + ttl))
	}))

	It("never exceeds the true expiry", inBubble(func() {
		h := hold(inject.Late(time.Second))
		defer h.end()
		for range 40 {
			bubble.Sleep(time.Second)
			settled()
			var inTheWay *worklease.HeldError
			Expect(errors.As(failure(newLease(h.inner, "b").Acquire(background, "w")), &inTheWay)).To(BeTrue())
			Expect(h.window()).To(BeNumerically("<=", time.Since(h.start)+inTheWay.Remaining))
		}
	}))

	It("is not ok outside a renewal context", func() {
		deadline, ok := worklease.LeaseWindow(background)
		Expect(ok).To(BeFalse())
		Expect(deadline).To(BeZero())
	})

	It("is not ok once the renewal context is done", inBubble(func() {
		h := hold(nil)
		h.cancel()
		_, ok := worklease.LeaseWindow(h.ctx)
		Expect(ok).To(BeFalse())
	}))

	It("is not ok from the deadline on", inBubble(func() {
		h := hold(nil)
		defer h.cancel()
		h.stop()
		bubble.Sleep(ttl - 1)
		Expect(h.window()).To(Equal(ttl))
		bubble.Sleep(1)
		Expect(h.window()).To(BeZero())
	}))
})

var _ = Describe("The renewal of a run", func() {
	// under starts a renewal that a Watch follows.
	under := func(fault inject.Fault) (*held, *watch.Watch) {
		h := hold(fault)
		h.end()
		w := watch.New(h.token)
		parent, cancel := context.WithCancel(background)
		h.cancel = cancel
		h.ctx, h.stop = h.lease.StartRenewal(watch.With(parent, w), h.token, steady)
		return h, w
	}

	It("goes on after the caller's context has ended, until it is stopped", inBubble(func() {
		h, w := under(nil)
		h.cancel()
		Expect(h.ctx.Err()).To(MatchError(context.Canceled))
		bubble.Sleep(5*ttl + 1)
		Expect(w.Open()).To(BeTrue())
		Expect(h.sent()).To(HaveLen(10))
		h.stop()
		settled()
		Expect(renewing()).To(BeZero())
	}))

	DescribeTable("reports a loss that the context cannot show any more", func(fault inject.Fault, want error) {
		inBubble(func() {
			h, w := under(fault)
			h.cancel()
			bubble.Sleep(ttl)
			settled()
			Expect(w.Lost()).To(MatchError(want))
			Expect(renewing()).To(BeZero())
		})()
	},
		Entry("fenced", inject.Fail(backend.ErrFenced), worklease.ErrFenced),
		Entry("out of its window", inject.Fail(errNet), worklease.ErrLeaseWindowExhausted),
	)

	It("reports no loss after the stop", inBubble(func() {
		h, w := under(inject.Fail(backend.ErrFenced))
		defer h.end()
		h.stop()
		bubble.Sleep(2 * ttl)
		Expect(w.Lost()).NotTo(HaveOccurred())
	}))
})
