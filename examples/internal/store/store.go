// Package store opens the backend of an example program.
package store

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/lib/pq" // the driver of -dsn

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/backend/postgres"
)

// Open returns a backend: in memory without a dsn, else on the PostgreSQL
// database that dsn names, in which it creates the table if it is missing.
// closeStore lets go of the connections.
func Open(ctx context.Context, dsn string) (b backend.Backend, closeStore func() error, err error) {
	if dsn == "" {
		return memory.New(), func() error { return nil }, nil
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("open database: %w", err)
	}
	if _, err = db.ExecContext(ctx, postgres.Schema); err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("apply schema: %w", err)
	}
	b, err = postgres.New(db)
	if err != nil {
		_ = db.Close()
		return nil, nil, err
	}
	return b, db.Close, nil
}
