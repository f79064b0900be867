package postgres_test

import (
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// BenchmarkReleaseTelling measures what WithNotifications costs a Release: rounds with
// and without take turns, since rates wander. It reports the releases a second and, as
// what counts, the median of the rounds' ratios.
func BenchmarkReleaseTelling(b *testing.B) {
	for _, waited := range []bool{false, true} {
		for _, clients := range []int{8, 32} {
			b.Run(fmt.Sprintf("waited=%v/clients=%d", waited, clients), func(b *testing.B) {
				newReleases(b, clients).measure(b, waited)
			})
		}
	}
}

// releases are leases that clients release all at once.
type releases struct {
	db             *sql.DB
	clients        int
	plain, telling *postgres.Backend
}

// released is how many leases a client releases in a round.
const released = 50

func newReleases(b *testing.B, clients int) *releases {
	b.Helper()
	db, err := sql.Open("postgres", pgtest.DatabaseFor(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(clients + 1)
	db.SetMaxIdleConns(clients + 1)
	pgtest.ApplySchema(db, "")
	r := &releases{db: db, clients: clients}
	if r.plain, err = postgres.New(db); err != nil {
		b.Fatal(err)
	}
	// It is never connected: what counts is what a Release does.
	if r.telling, err = postgres.New(db, postgres.WithNotifications(postgres.NewListener(nil))); err != nil {
		b.Fatal(err)
	}
	if _, err := db.ExecContext(b.Context(), `
		INSERT INTO worklease_leases (work_id, holder_id, fencing_token, expires_at)
		SELECT 'w' || n, 'a', n, statement_timestamp() FROM generate_series(1, $1::int) AS n`, clients*released); err != nil {
		b.Fatal(err)
	}
	return r
}

func (r *releases) measure(b *testing.B, waited bool) {
	b.Helper()
	if waited {
		conn, err := r.db.Conn(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(b.Context(), `SELECT pg_advisory_lock_shared(2003792492, n) FROM generate_series(0, 63) AS n`); err != nil {
			b.Fatal(err)
		}
	}
	r.round(b, r.plain)
	r.round(b, r.telling)
	var plain, telling, ratios []float64
	for n := 0; b.Loop(); n++ {
		var p, t float64
		if n%2 == 0 {
			p, t = r.round(b, r.plain), r.round(b, r.telling)
		} else {
			t, p = r.round(b, r.telling), r.round(b, r.plain)
		}
		plain, telling, ratios = append(plain, p), append(telling, t), append(ratios, t/p)
	}
	b.ReportMetric(median(plain), "plain/s")
	b.ReportMetric(median(telling), "telling/s")
	b.ReportMetric(median(ratios), "ratio")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// round makes all leases live, and returns at which rate on releases them.
func (r *releases) round(b *testing.B, on *postgres.Backend) float64 {
	b.Helper()
	if _, err := r.db.ExecContext(b.Context(), `
		UPDATE worklease_leases SET exit_mode = NULL, expires_at = statement_timestamp() + interval '1 hour'`); err != nil {
		b.Fatal(err)
	}
	var (
		clients sync.WaitGroup
		failed  atomic.Value
	)
	start := time.Now()
	for c := range r.clients {
		clients.Go(func() {
			for n := range released {
				id := c*released + n + 1
				rec := backend.LeaseRecord{WorkID: fmt.Sprint("w", id), HolderID: "a", FencingToken: uint64(id)}
				if err := on.Release(b.Context(), rec, backend.ExitFinished); err != nil {
					failed.Store(err)
				}
			}
		})
	}
	clients.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	return float64(r.clients*released) / time.Since(start).Seconds()
}
