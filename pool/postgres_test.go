package pool_test

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
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
})
