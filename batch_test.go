package worklease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

// keep starts the renewal of a lease on workID, until the parent context ends.
func keep(ctx context.Context, lease worklease.Lease, workID string, opts ...worklease.RenewalOption) (context.Context, func()) {
	return lease.StartRenewal(ctx, acquire(lease, workID), append([]worklease.RenewalOption{steady}, opts...)...)
}

// batches returns the leases of each call of Renew, and when it was sent.
func batches(faults *inject.Faults, start time.Time) (at []time.Duration, ids [][]string) {
	for _, call := range faults.Calls(inject.Renew) {
		at = append(at, call.Start.Sub(start))
		ids = append(ids, slices.Sorted(slices.Values(call.WorkIDs)))
	}
	return at, ids
}

var errLocked = errors.New("locked")

// locking is a backend on which one lease's row is locked by somebody.
type locking struct {
	classifying
	workID string
}

func (l locking) RenewBatch(ctx context.Context, records []backend.LeaseRecord, ttl time.Duration) ([]error, error) {
	rest := slices.DeleteFunc(slices.Clone(records), func(r backend.LeaseRecord) bool { return r.WorkID == l.workID })
	verdicts, err := l.classifying.RenewBatch(ctx, rest, ttl)
	for i, r := range records {
		if r.WorkID == l.workID {
			verdicts = slices.Insert(verdicts, i, errLocked)
		}
	}
	return verdicts, err
}

var _ = Describe("Renewals of one Lease", func() {
	var (
		ctx    context.Context
		cancel context.CancelFunc
		faults *inject.Faults
		seen   *recorder.Recorder
		lease  worklease.Lease
		start  time.Time
	)
	// on makes the Lease on b; each spec's body begins with it, inside its bubble.
	on := func(b backend.Backend) {
		ctx, cancel = context.WithCancel(background)
		seen = new(recorder.Recorder)
		faults, b = inject.Around(b)
		lease = newLease(b, "a", seen)
		start = time.Now()
	}

	It("go in one step with those that fall due within an eighth of their wait, and stay together", inBubble(func() {
		on(memory.New())
		defer cancel()
		keep(ctx, lease, "first")
		bubble.Sleep(500 * time.Millisecond)
		keep(ctx, lease, "soon")
		bubble.Sleep(500 * time.Millisecond)
		keep(ctx, lease, "later")
		bubble.Sleep(10 * time.Second)
		settled()
		at, ids := batches(faults, start)
		Expect(at).To(Equal([]time.Duration{5 * time.Second, 6 * time.Second, 10 * time.Second, 11 * time.Second}))
		Expect(ids).To(Equal([][]string{{"first", "soon"}, {"later"}, {"first", "soon"}, {"later"}}))
	}))

	It("are renewed each by itself on a backend that has no batches", inBubble(func() {
		on(unrestoring{memory.New()})
		defer cancel()
		keep(ctx, lease, "first")
		bubble.Sleep(500 * time.Millisecond)
		keep(ctx, lease, "second")
		bubble.Sleep(5 * time.Second)
		settled()
		at, ids := batches(faults, start)
		Expect(at).To(Equal([]time.Duration{5 * time.Second, 5500 * time.Millisecond}))
		Expect(ids).To(Equal([][]string{{"first"}, {"second"}}))
	}))

	It("go 500 at a time", inBubble(func() {
		on(memory.New())
		defer cancel()
		for n := range 1200 {
			keep(ctx, lease, fmt.Sprint(n))
		}
		bubble.Sleep(ttl / 2)
		settled()
		_, ids := batches(faults, start)
		var sizes []int
		for _, group := range ids {
			sizes = append(sizes, len(group))
		}
		Expect(sizes).To(ConsistOf(500, 500, 200))
	}))

	It("give one event for each lease, with the duration of the batch", inBubble(func() {
		on(memory.New())
		defer cancel()
		faults.On(inject.Renew, inject.Slow(time.Second))
		a, _ := keep(ctx, lease, "a")
		b, _ := keep(ctx, lease, "b")
		bubble.Sleep(ttl/2 + time.Second)
		settled()
		var contexts []context.Context
		for _, entry := range seen.Entries() {
			if entry.Name == "Renew" {
				contexts = append(contexts, entry.Ctx)
				Expect(entry.Event).To(And(HaveField("Attempt", 1), HaveField("Duration", time.Second), HaveField("Err", BeNil())))
			}
		}
		Expect(contexts).To(ConsistOf(BeIdenticalTo(a), BeIdenticalTo(b)))
	}))

	It("lose the lease that is lost and no other", inBubble(func() {
		inner := memory.New()
		on(inner)
		defer cancel()
		gone, _ := keep(ctx, lease, "gone")
		left, _ := keep(ctx, lease, "left")
		well, _ := keep(ctx, lease, "well")
		tokens := map[string]worklease.Token{}
		for _, e := range recorder.All[worklease.AcquireEvent](seen) {
			tokens[e.WorkID] = e.Token
		}
		Expect(lease.Forget(background, tokens["gone"])).To(Succeed())
		Expect(lease.Release(background, tokens["left"], worklease.ExitFinished)).To(Succeed())
		bubble.Sleep(ttl)
		settled()
		Expect(context.Cause(gone)).To(MatchError(worklease.ErrFenced))
		Expect(context.Cause(left)).To(And(MatchError(worklease.ErrLeaseWindowExhausted), MatchError(worklease.ErrLeaseExpired)))
		Expect(well.Err()).NotTo(HaveOccurred())
		_, ids := batches(faults, start)
		Expect(ids).To(Equal([][]string{{"gone", "left", "well"}, {"well"}}))
	}))

	It("22a: renew a lease singly whose row is locked, as the same attempt", inBubble(func() {
		on(locking{classifying{memory.New()}, "locked"})
		defer cancel()
		locked, _ := keep(ctx, lease, "locked")
		keep(ctx, lease, "free")
		bubble.Sleep(ttl / 2)
		settled()
		_, ids := batches(faults, start)
		Expect(ids).To(Equal([][]string{{"free", "locked"}, {"locked"}}))
		Expect(recorder.All[worklease.RenewEvent](seen)).To(HaveEach(And(HaveField("Attempt", 1), HaveField("Err", BeNil()))))
		Expect(recorder.All[worklease.RenewEvent](seen)).To(HaveLen(2))
		deadline, _ := worklease.LeaseWindow(locked)
		Expect(deadline.Sub(start)).To(Equal(ttl/2 + ttl))
	}))

	It("22a: give such a renewal a time of its own to answer, and hold no other up by it", inBubble(func() {
		on(locking{classifying{memory.New()}, "locked"})
		defer cancel()
		faults.On(inject.Renew, func(ctx context.Context, call inject.Call) error {
			if len(call.WorkIDs) == 1 {
				return hang(ctx, call)
			}
			return inject.Slow(time.Second)(ctx, call)
		})
		locked, _ := keep(ctx, lease, "locked")
		free, _ := keep(ctx, lease, "free")
		other, _ := keep(ctx, lease, "other")
		bubble.Sleep(ttl + 1)
		settled()
		Expect(context.Cause(locked)).To(MatchError(worklease.ErrLeaseWindowExhausted))
		at, ids := batches(faults, start)
		retried := 6*time.Second + ttl/4 + 100*time.Millisecond
		Expect(ids[:3]).To(Equal([][]string{{"free", "locked", "other"}, {"locked"}, {"locked"}}))
		Expect(at[:3]).To(Equal([]time.Duration{5 * time.Second, 6 * time.Second, retried}))
		Expect(free.Err()).NotTo(HaveOccurred())
		Expect(other.Err()).NotTo(HaveOccurred())
	}))

	It("22a: cancel such a renewal when its time is over, so that it keeps no connection", inBubble(func() {
		on(locking{classifying{memory.New()}, "locked"})
		defer cancel()
		var waits context.Context
		faults.On(inject.Renew, func(ctx context.Context, call inject.Call) error {
			if len(call.WorkIDs) == 1 && waits == nil {
				waits = ctx
				return inject.UntilDone(ctx, call)
			}
			return call.Do(ctx)
		})
		locked, _ := keep(ctx, lease, "locked")
		keep(ctx, lease, "free")
		bubble.Sleep(ttl/2 + ttl/4)
		settled()
		Expect(waits.Err()).To(MatchError(context.Canceled))
		bubble.Sleep(ttl)
		Expect(locked.Err()).NotTo(HaveOccurred())
	}))

	It("come again in smaller batches after one that took too long", inBubble(func() {
		on(classifying{memory.New()})
		defer cancel()
		faults.On(inject.Renew, func(ctx context.Context, call inject.Call) error {
			if len(call.WorkIDs) > 100 {
				bubble.Sleep(ttl / 8)
				return errNet // as a statement_timeout is
			}
			return call.Do(ctx)
		})
		var kept []context.Context
		for n := range 400 {
			renewCtx, _ := keep(ctx, lease, fmt.Sprint(n))
			kept = append(kept, renewCtx)
		}
		bubble.Sleep(4 * ttl)
		for _, renewCtx := range kept {
			Expect(renewCtx.Err()).NotTo(HaveOccurred())
		}
	}))

	It("tell one observer one thing at a time, also where an answer comes when it was given up", inBubble(func() {
		// The batch answers at the very moment when its time is over.
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		var mu sync.Mutex
		telling, clashes := map[string]int{}, 0
		lease := newLease(fencing{classifying{memory.New()}, ttl / 4}, "a", onRenew{do: func(e worklease.RenewEvent) {
			mu.Lock()
			if telling[e.Token.WorkID()]++; telling[e.Token.WorkID()] > 1 {
				clashes++
			}
			mu.Unlock()
			bubble.Sleep(time.Second)
			mu.Lock()
			telling[e.Token.WorkID()]--
			mu.Unlock()
		}})
		for n := range 3000 {
			keep(ctx, lease, fmt.Sprint(n))
		}
		bubble.Sleep(ttl)
		Expect(clashes).To(BeZero())
	}))

	It("come together again after an error that the backend expects to pass", inBubble(func() {
		on(classifying{memory.New()})
		defer cancel()
		faults.On(inject.Renew, inject.Times(2, inject.Fail(errNet)))
		keep(ctx, lease, "a")
		keep(ctx, lease, "b")
		bubble.Sleep(ttl * 3 / 4)
		settled()
		_, ids := batches(faults, start)
		Expect(ids).To(Equal([][]string{{"a", "b"}, {"a", "b"}, {"a", "b"}}))
	}))

	It("are tried singly after any other, so that no lease suffers for long from another", inBubble(func() {
		on(classifying{memory.New()})
		defer cancel()
		poison := errors.New("invalid byte sequence")
		faults.On(inject.Renew, func(ctx context.Context, call inject.Call) error {
			if slices.Contains(call.WorkIDs, "poison") {
				return poison
			}
			return call.Do(ctx)
		})
		bad, _ := keep(ctx, lease, "poison")
		good, _ := keep(ctx, lease, "good")
		bubble.Sleep(4 * ttl)
		settled()
		Expect(context.Cause(bad)).To(MatchError(poison))
		Expect(good.Err()).NotTo(HaveOccurred())
	}))

	It("fail where the backend answers about another number of leases", inBubble(func() {
		on(talkative{classifying{memory.New()}})
		defer cancel()
		keep(ctx, lease, "a")
		keep(ctx, lease, "b")
		bubble.Sleep(ttl / 2)
		settled()
		Expect(recorder.All[worklease.RenewEvent](seen)).To(HaveEach(
			HaveField("Err", MatchError(ContainSubstring("3 verdicts on 2 leases")))))
		bubble.Sleep(time.Second)
		settled()
		Expect(recorder.All[worklease.RenewEvent](seen)[2:]).To(And(HaveLen(2), HaveEach(HaveField("Err", BeNil()))))
	}))

	It("go on for the others when one is stopped in flight, and are given up with the last", inBubble(func() {
		on(memory.New())
		defer cancel()
		var flight context.Context
		faults.On(inject.Renew, func(ctx context.Context, call inject.Call) error {
			flight = ctx
			return inject.Slow(time.Second)(ctx, call)
		})
		_, stopA := keep(ctx, lease, "a")
		b, stopB := keep(ctx, lease, "b")
		bubble.Sleep(ttl/2 + 1)
		stopA()
		settled()
		Expect(flight.Err()).NotTo(HaveOccurred())
		bubble.Sleep(time.Second)
		settled()
		Expect(recorder.All[worklease.RenewEvent](seen)).To(HaveExactElements(HaveField("Token", HaveField("WorkID()", "b"))))
		Expect(b.Err()).NotTo(HaveOccurred())

		keep(ctx, lease, "c")
		bubble.Sleep(ttl/2 - time.Second)
		settled()
		_, ids := batches(faults, start)
		Expect(ids[len(ids)-1]).To(ConsistOf("b"))
		stopB()
		settled()
		Expect(flight.Err()).To(MatchError(context.Canceled))
	}))

	It("12b: are delayed by their own lease's slow observer alone", inBubble(func() {
		on(memory.New())
		defer cancel()
		b := memory.New()
		lease = newLease(b, "a", onRenew{do: func(e worklease.RenewEvent) {
			if e.Token.WorkID() == "slow" {
				bubble.Sleep(3 * ttl)
			}
		}})
		slow, _ := keep(ctx, lease, "slow")
		quick, _ := keep(ctx, lease, "quick")
		<-slow.Done()
		Expect(time.Since(start)).To(Equal(ttl/2 + ttl))
		bubble.Sleep(ttl)
		Expect(quick.Err()).NotTo(HaveOccurred())
	}))

	It("renew a token that is kept twice", inBubble(func() {
		on(memory.New())
		defer cancel()
		token := acquire(lease, "w")
		one, _ := lease.StartRenewal(ctx, token)
		two, _ := lease.StartRenewal(ctx, token)
		bubble.Sleep(3 * ttl)
		settled()
		Expect(one.Err()).NotTo(HaveOccurred())
		Expect(two.Err()).NotTo(HaveOccurred())
	}))

	It("have no goroutine of their own, and less than 4 KB", func() {
		const leases = 10_000
		lease := newLease(memory.New(), "a")
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		goroutines, before := runtime.NumGoroutine(), heap()
		stops := make([]func(), leases)
		for n := range stops {
			_, stops[n] = keep(ctx, lease, fmt.Sprint("work-", n), worklease.WithRenewalInterval(time.Second))
		}
		Eventually(func() bool { return runtime.NumGoroutine() <= goroutines+8 }, "5s").Should(BeTrue())
		Expect((heap() - before) / leases).To(BeNumerically("<", 4096))
		for _, stop := range stops {
			stop()
		}
	})

	It("may be started and stopped from everywhere at once", inBubble(func() {
		lease := newLease(memory.New(), "a")
		var lanes sync.WaitGroup
		for lane := range 16 {
			lanes.Go(func() {
				defer GinkgoRecover()
				for round := range 40 {
					ctx, cancel := context.WithCancel(background)
					renewCtx, stop := keep(ctx, lease, fmt.Sprint(lane, " ", round), worklease.WithRenewalInterval(time.Millisecond))
					bubble.Sleep(3 * time.Millisecond)
					if round%2 == 0 {
						stop()
					}
					cancel()
					<-renewCtx.Done()
					stop()
				}
			})
		}
		lanes.Wait()
		settled()
		Expect(renewing()).To(BeZero())
	}))
})

// fencing refuses all batches, after a while.
type fencing struct {
	classifying
	after time.Duration
}

func (b fencing) RenewBatch(_ context.Context, records []backend.LeaseRecord, _ time.Duration) ([]error, error) {
	bubble.Sleep(b.after)
	return slices.Repeat([]error{backend.ErrFenced}, len(records)), nil
}

// talkative has one verdict too many.
type talkative struct{ classifying }

func (b talkative) RenewBatch(ctx context.Context, records []backend.LeaseRecord, ttl time.Duration) ([]error, error) {
	verdicts, err := b.classifying.RenewBatch(ctx, records, ttl)
	return append(verdicts, nil), err
}

// heap returns how many bytes are in use after collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
