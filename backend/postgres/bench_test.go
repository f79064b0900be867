package postgres_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
	"github.com/aetomala/worklease/internal/testkit/wire"
)

func BenchmarkAcquireRelease(b *testing.B) {
	on := benchBackend(b)
	on.measure(b, func(ctx context.Context) error {
		rec, err := on.Acquire(ctx, work, "a", ttl)
		if err != nil {
			return err
		}
		return on.Release(ctx, rec, backend.ExitFinished)
	})
}

func BenchmarkAcquireHeld(b *testing.B) {
	on := benchBackend(b)
	on.hold(b)
	on.measure(b, func(ctx context.Context) error {
		if _, err := on.Acquire(ctx, work, "b", ttl); err == nil {
			b.Fatal("two hold one lease")
		}
		return nil
	})
}

func BenchmarkCheckpoint1KB(b *testing.B) {
	on := benchBackend(b)
	rec, state := on.hold(b), make([]byte, 1024)
	on.measure(b, func(ctx context.Context) error { return on.Checkpoint(ctx, rec, state, ttl) })
}

// A transaction of its own around it: three statements, which BEGIN and COMMIT are
// two of.
func BenchmarkCheckpointInTransaction1KB(b *testing.B) {
	on := benchBackend(b)
	rec, state := on.hold(b), make([]byte, 1024)
	if err := on.Checkpoint(b.Context(), rec, state, ttl); err != nil { // prepared outside
		b.Fatal(err)
	}
	on.measure(b, func(ctx context.Context) error { return on.inTx(ctx, rec, state) })
}

func BenchmarkRenew(b *testing.B) {
	on := benchBackend(b)
	rec := on.hold(b)
	on.measure(b, func(ctx context.Context) error { return on.Renew(ctx, rec, ttl) })
}

func BenchmarkReadCheckpoint(b *testing.B) {
	on := benchBackend(b)
	rec := on.hold(b)
	on.measure(b, func(ctx context.Context) error {
		_, err := on.ReadCheckpoint(ctx, rec)
		return err
	})
}

// benched is a backend on a database of the benchmark's own.
type benched struct {
	*postgres.Backend
	db    *sql.DB
	admin *sql.DB
	wire  *wire.Wire
}

func benchBackend(b *testing.B) *benched {
	b.Helper()
	dsn := pgtest.DatabaseFor(b)
	admin, err := sql.Open("postgres", dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = admin.Close() })
	pgtest.ApplySchema(admin, "")

	connector, err := pq.NewConnector(dsn)
	if err != nil {
		b.Fatal(err)
	}
	w := &wire.Wire{}
	connector.Dialer(w.Dialer())
	db := sql.OpenDB(connector)
	b.Cleanup(func() { _ = db.Close() })
	p, err := postgres.New(db)
	if err != nil {
		b.Fatal(err)
	}
	return &benched{p, db, admin, w}
}

// hold acquires the lease.
func (on *benched) hold(b *testing.B) backend.LeaseRecord {
	b.Helper()
	rec, err := on.Acquire(b.Context(), work, "a", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	return rec
}

// inTx commits a checkpoint in a transaction.
func (on *benched) inTx(ctx context.Context, rec backend.LeaseRecord, state []byte) error {
	tx, err := on.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after the commit
	if err := on.Checkpoint(postgres.WithTx(ctx, tx), rec, state, ttl); err != nil {
		return err
	}
	return tx.Commit()
}

// measure calls op again and again. Beside the time it reports what does not
// depend on the machine: round trips and bytes of the write-ahead log, full pages
// and other processes' included, so that only many iterations mean something.
func (on *benched) measure(b *testing.B, op func(context.Context) error) {
	b.Helper()
	ctx := b.Context()
	if err := op(ctx); err != nil { // prepares the statements
		b.Fatal(err)
	}
	trips, wal := on.wire.Trips(), on.wal(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := op(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(on.wire.Trips()-trips)/float64(b.N), "statements/op")
	b.ReportMetric(float64(on.wal(b)-wal)/float64(b.N), "WAL-B/op")
}

// wal returns how many bytes the server has logged.
func (on *benched) wal(b *testing.B) (n int64) {
	b.Helper()
	err := on.admin.QueryRowContext(b.Context(), `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&n)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
