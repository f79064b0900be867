// Leases shows who holds what in a PostgreSQL database, and mends it:
//
//	go run ./examples/leases -dsn DSN                              # who holds what, as a table
//	go run ./examples/leases -dsn DSN -json -exit expired          # a line of JSON for each lease
//	go run ./examples/leases -dsn DSN -watch 2s -live              # again and again, until Ctrl-C
//	go run ./examples/leases -dsn DSN force-release WORKID TOKEN   # take it from a holder that is dead
//	go run ./examples/leases -dsn DSN forget WORKID TOKEN          # delete it, with its state
//	go run ./examples/leases -dsn DSN -retention 168h sweep        # delete what was retired a week ago
//	go run ./examples/leases -dsn DSN check                        # is the database as it must be?
//
// Flags come first. Without arguments it tells the same story on a store in memory.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/lib/pq" // the driver of -dsn

	"github.com/aetomala/worklease/backend/postgres"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	cmd, err := parse(args)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return tell(ctx, os.Stdout)
	case cmd.dsn == "":
		return errors.New("-dsn is needed; a story in memory is told where there are no arguments at all")
	}
	var opts []postgres.Option
	if cmd.schema != "" {
		opts = append(opts, postgres.WithSchema(cmd.schema))
	}
	if cmd.pooler {
		opts = append(opts, postgres.WithTransactionPooler())
	}
	db, err := sql.Open("postgres", cmd.dsn)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer db.Close()
	b, err := postgres.New(db, opts...)
	if err != nil {
		return err
	}
	return tool{store: b, out: os.Stdout, now: time.Now}.do(ctx, cmd)
}
