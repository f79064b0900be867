package pool_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
	"github.com/aetomala/worklease/pool"
)

// database is the suite's own, and ask a connection for questions about it.
var (
	database string
	ask      *sql.DB
)

var _ = BeforeSuite(func() {
	database = pgtest.Database()
	ask = pgtest.OpenWithSchema(database)
})

// connect opens at most n connections that ask can tell by name.
func connect(name string, n int) *sql.DB {
	GinkgoHelper()
	u, err := url.Parse(database)
	Expect(err).NotTo(HaveOccurred())
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	db := pgtest.Open(u.String())
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db
}

// number answers a question whose answer is one number.
func number(ctx context.Context, question string, args ...any) int {
	GinkgoHelper()
	var n int
	Expect(ask.QueryRowContext(ctx, question, args...).Scan(&n)).To(Succeed())
	return n
}

func leaseOn(db *sql.DB, ttl time.Duration, observer worklease.LeaseObserver) worklease.Lease {
	GinkgoHelper()
	b, err := postgres.New(db)
	Expect(err).NotTo(HaveOccurred())
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: "us", Observer: observer})
	Expect(err).NotTo(HaveOccurred())
	return lease
}

// prefixed returns n work IDs of a spec's own.
func prefixed(prefix string, n int) []string {
	ids := numbered(n)
	for i := range ids {
		ids[i] = prefix + ids[i]
	}
	return ids
}

const heldRows = `SELECT count(*) FROM worklease_leases WHERE work_id LIKE $1 || '%' AND expires_at > statement_timestamp()`

var _ = Describe("On PostgreSQL", func() {
	It("14a: waits for functions that ignore ctx for a second; afterwards no row is held", func(ctx SpecContext) {
		told := &diary{}
		p, err := pool.New(leaseOn(connect("14a", 8), 10*time.Second, nil), pool.Config{
			WorkIDs: prefixed("14a-", 8), Observer: told,
		}, stubborn(time.Second))
		Expect(err).NotTo(HaveOccurred())
		runCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- p.Run(runCtx) }()
		Eventually(p.ActiveSlots, 10*time.Second).Should(HaveLen(8))

		begin := time.Now()
		cancel()
		Eventually(result, 10*time.Second).Should(Receive(BeNil()))
		Expect(time.Since(begin)).To(BeNumerically(">=", time.Second))
		Expect(number(ctx, heldRows, "14a-")).To(BeZero())
		Expect(number(ctx, `SELECT count(*) FROM worklease_leases
			WHERE work_id LIKE '14a-%' AND exit_mode = 'abandoned' AND checkpoint = 'state'`)).To(Equal(8))
		Expect(told.of("Acquired")).To(HaveLen(8))
		Expect(told.names()).To(BeEmpty())
	}, SpecTimeout(time.Minute))

	It("23a: eight slots make progress over one connection for ten TTLs", func(ctx SpecContext) {
		const ttl = 2 * time.Second
		lease := leaseOn(connect("23a", 1), ttl, nil)
		ids := prefixed("23a-", 8)
		var (
			mu   sync.Mutex
			done = map[string]int{}
		)
		p, err := pool.New(lease, pool.Config{
			WorkIDs: ids, RerunInterval: 100 * time.Millisecond, BackoffInterval: 100 * time.Millisecond,
		}, func(ctx context.Context, id string, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			// One that needs renewals, others that come and go.
			work := ttl / 5
			if id == ids[0] {
				work = 2 * ttl
			}
			select {
			case <-time.After(work):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err := lease.Checkpoint(ctx, token, []byte("on the way")); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			done[id]++
			return []byte("state"), nil
		})
		Expect(err).NotTo(HaveOccurred())
		runCtx, cancel := context.WithTimeout(ctx, 10*ttl)
		defer cancel()
		Expect(p.Run(runCtx)).To(Succeed())

		Expect(done[ids[0]]).To(BeNumerically(">=", 2))
		for _, id := range ids[1:] {
			Expect(done[id]).To(BeNumerically(">=", 5), id)
		}
		Eventually(func() int { return number(ctx, heldRows, "23a-") }, 10*time.Second).Should(BeZero())
	}, SpecTimeout(time.Minute))

	It("has 10,000 slots working in under a minute over 20 connections, and keeps them renewed", func(ctx SpecContext) {
		const (
			slots       = 10_000
			connections = 20
		)
		var renewed counter
		lease := leaseOn(connect("10k", connections), 20*time.Second, &renewed)
		var (
			told    = &misfortunes{}
			working atomic.Int32
			all     = make(chan struct{})
		)
		p, err := pool.New(lease, pool.Config{
			WorkIDs:        prefixed("10k-", slots),
			Observer:       told,
			CleanupTimeout: time.Minute,
		}, func(ctx context.Context, _ string, _ worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			if working.Add(1) == slots {
				close(all)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		Expect(err).NotTo(HaveOccurred())

		before := inUse()
		peak := watchPeak(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = '10k'`)
		begin := time.Now()
		runCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		result := make(chan error, 1)
		go func() { result <- p.Run(runCtx) }()
		Eventually(all, time.Minute).Should(BeClosed())
		AddReportEntry("until all slots worked", time.Since(begin).Round(time.Millisecond).String())
		AddReportEntry("memory a slot", fmt.Sprintf("%d bytes", (inUse()-before)/slots))

		renewBegin, already := time.Now(), renewed.n.Load()
		Eventually(func() int64 { return renewed.n.Load() - already }, time.Minute).Should(BeNumerically(">=", slots))
		AddReportEntry("renewals a second", fmt.Sprintf("%.0f", slots/time.Since(renewBegin).Seconds()))
		Expect(told.all()).To(BeEmpty())

		stopBegin := time.Now()
		cancel()
		Eventually(result, 2*time.Minute).Should(Receive(BeNil()))
		AddReportEntry("shutdown", time.Since(stopBegin).Round(time.Millisecond).String())
		Expect(number(ctx, heldRows, "10k-")).To(BeZero())
		Expect(peak()).To(And(BeNumerically(">", connections/2), BeNumerically("<=", connections)))
	}, SpecTimeout(4*time.Minute))
})

// watchPeak asks question again and again until it is asked itself for the
// greatest answer.
func watchPeak(ctx context.Context, question string) func() int {
	ctx, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	most := make(chan int, 1)
	go func() {
		peak := 0
		for ctx.Err() == nil {
			var n int
			if err := ask.QueryRowContext(ctx, question).Scan(&n); err == nil {
				peak = max(peak, n)
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		most <- peak
	}()
	return func() int {
		cancel()
		return <-most
	}
}

// inUse returns the bytes of heap and stacks in use.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// counter counts renewals that succeeded.
type counter struct {
	worklease.NoopObserver
	n atomic.Int64
}

func (c *counter) OnRenew(_ context.Context, e worklease.RenewEvent) {
	if e.Err == nil {
		c.n.Add(1)
	}
}

// misfortunes is a diary that leaves the ten thousand good news out.
type misfortunes struct{ diary }

func (*misfortunes) OnSlotAcquired(context.Context, pool.SlotAcquiredEvent) {}
