package serverfaults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
)

// listener makes a Listener that connects to dsn, and ends it with the spec.
func (s *subject) listener(dsn string) *postgres.Listener {
	GinkgoHelper()
	l, err := s.listen(dsn)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Close)
	return l
}

// refusals counts the attempts that found the lease held.
type refusals struct {
	worklease.NoopObserver
	n atomic.Int64
}

func (r *refusals) OnAcquire(_ context.Context, e worklease.AcquireEvent) {
	if e.Err != nil {
		r.n.Add(1)
	}
}

// node is a process that takes part in handoffs: a backend, and who hears for it.
type node struct {
	worklease.Lease
	listener *postgres.Listener
	refused  refusals
}

func (s *subject) node(id string) *node {
	GinkgoHelper()
	n := &node{listener: s.listener(s.dsn)}
	n.Lease = observed(on(s.open(s.dsn), postgres.WithNotifications(n.listener)), id, time.Minute, &n.refused)
	return n
}

// handoffs hands a lease back and forth between two nodes, and returns how long each
// takes. before is called when the other waits.
func (s *subject) handoffs(ctx context.Context, times int, poll time.Duration, before func()) (took []time.Duration) {
	GinkgoHelper()
	s.database()
	owner, next := s.node("a"), s.node("b")
	token := acquire(ctx, owner, work)
	for range times {
		refused := next.refused.n.Load()
		taken := make(chan worklease.Token, 1)
		var at time.Time
		go func() {
			defer GinkgoRecover()
			got, err := next.Acquire(ctx, work, worklease.WithWaitForLease(), worklease.WithPollInterval(poll))
			at = time.Now()
			Expect(err).NotTo(HaveOccurred())
			taken <- got
		}()
		Eventually(next.refused.n.Load).WithTimeout(margin).WithPolling(time.Millisecond).Should(BeNumerically(">", refused))
		before()
		released := time.Now()
		Expect(owner.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
		Eventually(taken).WithTimeout(poll + 5*margin).Should(Receive(&token))
		took = append(took, at.Sub(released))
		owner, next = next, owner
	}
	slices.Sort(took)
	AddReportEntry("handoffs", fmt.Sprintf("%d: median %v, 99 %% %v, longest %v",
		times, took[times/2], took[times*99/100], took[times-1]))
	return took
}

func (s *subject) handoffSpecs() {
	It("33a: one after the other come before the poll", limit, func(ctx SpecContext) {
		const poll = 10 * time.Second
		took := s.handoffs(ctx, 20, poll, func() {})
		// The first may come before the listener has connected.
		Expect(took[len(took)-3]).To(BeNumerically("<", poll/2-margin))
	})

	It("33d: of five hundred waiters one has the lease, and the others make one attempt each", limit, func(ctx SpecContext) {
		const waiters = 500
		s.database()
		a := s.node("a")
		token := acquire(ctx, a, work)
		db := s.open(s.dsn)
		db.SetMaxOpenConns(20)
		db.SetMaxIdleConns(20)
		b := on(db, postgres.WithNotifications(s.listener(s.dsn)))
		var (
			refused refusals
			won     atomic.Int64
			all     sync.WaitGroup
		)
		waiting, end := context.WithCancel(ctx)
		defer all.Wait()
		defer end()
		for n := range waiters {
			lease := observed(b, fmt.Sprint("b", n), time.Minute, &refused)
			all.Go(func() {
				_, err := lease.Acquire(waiting, work, worklease.WithWaitForLease(), worklease.WithPollInterval(time.Hour))
				if err == nil {
					won.Add(1)
				}
			})
		}
		// All have tried, and once more when the listener had connected.
		before := int64(-1)
		quiet := func() bool {
			last := before
			before = refused.n.Load()
			return before >= waiters && before == last
		}
		Eventually(quiet).WithTimeout(30 * time.Second).WithPolling(margin).Should(BeTrue())

		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
		Eventually(won.Load).WithTimeout(10 * time.Second).Should(Equal(int64(1)))
		Eventually(func() bool { return before == refused.n.Load() }).WithTimeout(margin).Should(BeFalse())
		first := before
		Eventually(quiet).WithTimeout(30 * time.Second).WithPolling(margin).Should(BeTrue())
		Expect(won.Load()).To(Equal(int64(1)))
		Expect(refused.n.Load() - first).To(BeNumerically("<=", waiters-1))
		AddReportEntry("attempts of the others", fmt.Sprint(refused.n.Load()-first))
	})
}

// deafSpecs are about a pooler in transaction mode, which accepts LISTEN.
func (s *subject) deafSpecs() {
	It("33e: never delivers to a listener, whose waiters poll, and nothing is marked through it", limit, func(ctx SpecContext) {
		const poll = 4 * time.Second
		db := s.database()
		pooled := transactionPooler(s.dsn)
		l := s.listener(pooled)
		b := on(s.open(pooled), postgres.WithTransactionPooler(), postgres.WithNotifications(l))
		a := holder(b, "a", time.Minute)
		token := acquire(ctx, a, work)
		var refused refusals
		waiter := observed(b, "b", time.Minute, &refused)
		taken := make(chan time.Time, 1)
		go func() {
			defer GinkgoRecover()
			_, err := waiter.Acquire(ctx, work, worklease.WithWaitForLease(), worklease.WithPollInterval(poll))
			Expect(err).NotTo(HaveOccurred())
			taken <- time.Now()
		}()
		Eventually(l.Err).WithTimeout(20 * time.Second).Should(MatchError(ContainSubstring("pooler in transaction mode")))
		Expect(refused.n.Load()).To(BeNumerically(">=", 1))
		var marks int
		Expect(db.QueryRowContext(ctx, `
			SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid IN (2003792491, 2003792492)`).Scan(&marks)).To(Succeed())
		Expect(marks).To(BeZero())

		released := time.Now()
		Expect(a.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
		var at time.Time
		Eventually(taken).WithTimeout(poll + margin).Should(Receive(&at))
		AddReportEntry("handoff", at.Sub(released).String())
	})
}
