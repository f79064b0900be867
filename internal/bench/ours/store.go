// Package ours does the work of worklease at each of its levels, and the same
// statements without it: through the bare driver, and by pgbench, which is the
// limit.
package ours

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/aetomala/worklease/backend/postgres"
)

const (
	holder = "bench"

	// ttl is longer than any turn, so that nothing lapses.
	ttl = time.Hour
)

// Driver is one of database/sql.
type Driver struct{ Name, registered string }

// The drivers that the backend is tested with.
var (
	LibPQ = Driver{"lib/pq", "postgres"}
	Pgx   = Driver{"pgx", "pgx"}
)

// open opens a pool of as many connections as there are clients, which it keeps.
// All of them are there when it returns: pgbench's rates, too, are without the time
// that connecting takes.
func (d Driver) open(ctx context.Context, dsn string, clients int) (*sql.DB, error) {
	db, err := sql.Open(d.registered, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(clients)
	db.SetMaxIdleConns(clients)
	if err := connect(ctx, db, clients); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// connect has n connections open at once.
func connect(ctx context.Context, db *sql.DB, n int) error {
	for range n {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // gives it back
	}
	return nil
}

// Store is a database with worklease's table.
type Store struct {
	dsn     string
	queries map[string]string // worklease's statements, by name
}

// NewStore applies the schema to an empty database. Root is the repository's, from
// which it reads the statements.
func NewStore(ctx context.Context, dsn, root string) (*Store, error) {
	s := &Store{dsn: dsn, queries: make(map[string]string)}
	files, err := filepath.Glob(filepath.Join(root, "backend/postgres/queries/*.sql"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no statements below %q: is that the repository?", root)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s.queries[strings.TrimSuffix(filepath.Base(file), ".sql")] = string(text)
	}
	return s, s.exec(ctx, postgres.Schema)
}

// rows says what the table holds before a turn: count rows called 0, 1, 2 … with
// one more than that as their tokens.
type rows struct {
	count int
	held  bool // by holder; else released as finished
}

// lay fills the table anew, so that every turn finds it alike.
func (s *Store) lay(ctx context.Context, r rows) error {
	expiry, exit := "now() - interval '1 hour'", "'finished'"
	if r.held {
		expiry, exit = "now() + interval '1 day'", "NULL"
	}
	return s.exec(ctx,
		`TRUNCATE worklease_leases`,
		fmt.Sprintf(`INSERT INTO worklease_leases (work_id, holder_id, fencing_token, expires_at, exit_mode, acquired_at)
			SELECT n::text, '%s', n + 1, %s, %s, date_trunc('milliseconds', now()) FROM generate_series(0, %d) AS n`, holder, expiry, exit, r.count-1),
		fmt.Sprintf(`SELECT setval('worklease_fencing_seq', %d)`, r.count+1),
		`VACUUM (ANALYZE) worklease_leases`)
}

// laid returns a call of lay.
func (s *Store) laid(r rows) func(context.Context) error {
	return func(ctx context.Context) error { return s.lay(ctx, r) }
}

// exec runs statements on a connection of their own, which is closed after them.
func (s *Store) exec(ctx context.Context, statements ...string) error {
	db, err := LibPQ.open(ctx, s.dsn, 1)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
