package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	_ "github.com/lib/pq" // the driver of -dsn

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/backend/postgres"
)

// point is where a migrator can be killed.
type point string

const (
	never     point = ""
	written   point = "with its rows written and no checkpoint"
	stored    point = "with its checkpoint made and nothing committed"
	committed point = "just after its commit"
)

// ledger is where the entries are moved to. Nothing in it keeps an entry from being
// written twice.
type ledger interface {
	// move writes a batch of rows from the entry after from, and calls store with the
	// cursor that tells of them. It calls at at each point.
	move(ctx context.Context, workID string, from int, store func(context.Context, []byte) error, at func(point)) error

	// rows counts them.
	rows(ctx context.Context, workID string) (int, error)

	store() backend.Backend
}

// openLedger returns one on PostgreSQL, or in memory where dsn is empty.
func openLedger(ctx context.Context, dsn string) (l ledger, closeLedger func() error, err error) {
	if dsn == "" {
		return &inMemory{Backend: memory.New(), written: map[string]int{}}, func() error { return nil }, nil
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return nil, nil, err
	}
	b, err := postgres.New(db)
	for _, statement := range []string{
		postgres.Schema,
		`CREATE TABLE IF NOT EXISTS worklease_example_ledger (run text, entry int)`,
	} {
		if err == nil {
			_, err = db.ExecContext(ctx, statement)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return &onPostgres{b, db}, db.Close, nil
}

// onPostgres is a table in the database that has the leases, too.
type onPostgres struct {
	*postgres.Backend
	db *sql.DB
}

func (l *onPostgres) move(ctx context.Context, workID string, from int, store func(context.Context, []byte) error, at func(point)) error {
	// On the context of the work: where the lease is lost, database/sql rolls back.
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after the commit
	_, err = tx.ExecContext(ctx, `INSERT INTO worklease_example_ledger SELECT $1, generate_series($2::int + 1, $3::int)`,
		workID, from, from+batch)
	if err != nil {
		return err
	}
	at(written)
	// The last statement: from here on the lease's row is locked.
	if err := store(postgres.WithTx(ctx, tx), encode(from+batch)); err != nil {
		return err
	}
	at(stored)
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err) // it may have happened: the next holder reads what stands
	}
	at(committed)
	return nil
}

func (l *onPostgres) rows(ctx context.Context, workID string) (n int, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT count(*) FROM worklease_example_ledger WHERE run = $1`, workID).Scan(&n)
	return n, err
}

func (l *onPostgres) store() backend.Backend { return l.Backend }

// inMemory has no transactions: its rows are there at once, and so is a checkpoint.
type inMemory struct {
	*memory.Backend

	mu      sync.Mutex
	written map[string]int
}

func (l *inMemory) move(ctx context.Context, workID string, from int, store func(context.Context, []byte) error, at func(point)) error {
	l.mu.Lock()
	l.written[workID] += batch
	l.mu.Unlock()
	at(written)
	if err := store(ctx, encode(from+batch)); err != nil {
		return err
	}
	at(stored)
	at(committed)
	return nil
}

func (l *inMemory) rows(_ context.Context, workID string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written[workID], nil
}

func (l *inMemory) store() backend.Backend { return l.Backend }
