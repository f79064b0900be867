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
// Flags come first. Without a DSN it tells the same story on a store in memory.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/lib/pq" // the driver of -dsn

	"github.com/aetomala/worklease/backend"
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
	if cmd.dsn == "" {
		return tell(ctx, os.Stdout)
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

// command is what the command line says.
type command struct {
	dsn, schema string
	pooler      bool

	list  backend.ListOptions
	json  bool
	watch time.Duration
	sweep backend.SweepOptions

	args []string // what to do, and with what
}

func parse(args []string) (cmd command, err error) {
	flags := flag.NewFlagSet("leases", flag.ExitOnError)
	flags.StringVar(&cmd.dsn, "dsn", "", "PostgreSQL `database` to look at; empty: a story in memory")
	flags.StringVar(&cmd.schema, "schema", "", "`schema` of the table; empty: by the search_path")
	flags.BoolVar(&cmd.pooler, "pooler", false, "there is a pooler in transaction mode between")
	flags.BoolVar(&cmd.list.Live, "live", false, "list leases that are held")
	flags.BoolVar(&cmd.list.Lapsed, "lapsed", false, "list leases that are not")
	flags.StringVar(&cmd.list.HolderID, "holder", "", "list the leases of this `holder`")
	flags.Func("exit", "list leases left as finished, abandoned, retired or `expired`", func(name string) error {
		cmd.list.Exit, err = exitMode(name)
		return err
	})
	flags.StringVar(&cmd.list.WorkIDPrefix, "prefix", "", "list leases whose work ID begins with these `bytes`")
	flags.BoolVar(&cmd.list.State, "state", false, "with -json, the states as well, in base64")
	flags.BoolVar(&cmd.json, "json", false, "list as JSON, an object a line")
	flags.DurationVar(&cmd.watch, "watch", 0, "list again at this `interval`, until interrupted")
	flags.DurationVar(&cmd.sweep.Retention, "retention", 0, "sweep what was last updated longer ago")
	flags.BoolVar(&cmd.sweep.IncludeExpired, "include-expired", false, "sweep what lapsed without an exit, too")
	err = flags.Parse(args)
	cmd.args = flags.Args()
	return cmd, err
}

// exitMode is the way to leave a lease that is called name.
func exitMode(name string) (backend.ExitMode, error) {
	for m := backend.ExitFinished; m <= backend.ExitExpired; m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, errors.New("want finished, abandoned, retired or expired")
}
