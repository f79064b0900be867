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
