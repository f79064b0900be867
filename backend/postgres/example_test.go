package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/lib/pq" // any PostgreSQL driver of database/sql will do

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/backend/postgres/pqlisten"
)

func ExampleNew() {
	db, err := sql.Open("postgres", "postgres://app@db.internal/jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	b, err := postgres.New(db) // no I/O yet; the schema must be there
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := worklease.New(b, worklease.Config{TTL: 30 * time.Second, HolderID: "pod-7f9c"})
	fmt.Println(lease != nil, err)
	// Output:
	// true <nil>
}

func ExampleWithSchema() {
	db, err := sql.Open("postgres", "postgres://app@db.internal/jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	_, err = postgres.New(db, postgres.WithSchema("coordination"))
	fmt.Println(err)
	// Output:
	// <nil>
}

func ExampleWithTransactionPooler() {
	db, err := sql.Open("postgres", "postgres://app@pgbouncer.internal:6432/jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	_, err = postgres.New(db, postgres.WithTransactionPooler())
	fmt.Println(err)
	// Output:
	// <nil>
}

func ExampleWithNotifications() {
	db, err := sql.Open("postgres", "postgres://app@db.internal/jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	listener, err := pqlisten.New("postgres://app@db.internal/jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	b, err := postgres.New(db, postgres.WithNotifications(listener))
	fmt.Println(b != nil, err)
	// Output:
	// true <nil>
}

// A program that must not start on a database which is not as it must be.
func ExampleBackend_Check() {
	start := func(ctx context.Context, db *sql.DB) (*postgres.Backend, error) {
		b, err := postgres.New(db)
		if err != nil {
			return nil, err
		}
		if err := b.Check(ctx); err != nil {
			return nil, err // all that is wrong, a line each, with what mends it
		}
		return b, nil
	}
	_, err := start(context.Background(), nil)
	fmt.Println(err)
	// Output:
	// postgres: New: db is nil
}

// One step of a work function: its row and the state that tells of it are one commit.
func ExampleWithTx() {
	step := func(ctx context.Context, db *sql.DB, lease worklease.Lease, token worklease.Token, entry int, state []byte) error {
		// ctx of the work function: the end of the lease rolls back.
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // a no-op after the commit
		if _, err := tx.ExecContext(ctx, `INSERT INTO ledger (entry) VALUES ($1)`, entry); err != nil {
			return err
		}
		if err := lease.Checkpoint(postgres.WithTx(ctx, tx), token, state); err != nil {
			return err // worklease.ErrFenced, too: the row goes with the rollback
		}
		return tx.Commit()
	}
	_ = step
}

// A write that needs no checkpoint and that no superseded holder can make.
func ExampleBackend_Guard() {
	pay := func(ctx context.Context, db *sql.DB, b *postgres.Backend, token worklease.Token, invoice int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // a no-op after the commit
		if err := b.Guard(ctx, tx, token); err != nil {
			return err // worklease.ErrFenced or worklease.ErrLeaseExpired
		}
		if _, err := tx.ExecContext(ctx, `UPDATE invoices SET paid = true WHERE id = $1`, invoice); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = pay
}
