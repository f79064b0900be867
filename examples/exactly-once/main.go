// Exactly-once moves a ledger in batches, and each entry once, although its migrators
// are killed wherever it hurts: with the rows of a batch written, with the checkpoint
// made, and just after the commit.
//
// The rows and the cursor that tells of them are in one database, and commit in one
// transaction (postgres.WithTx). So it needs PostgreSQL, where each migrator is a
// process of its own that dies of SIGKILL:
//
//	go run ./examples/exactly-once -dsn 'postgres://localhost/test?sslmode=disable'
//
// Without a DSN it tells the same story on memory, which has no transactions, and shows
// what at least once means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
)

func main() {
	log.SetFlags(0)
	dsn := flag.String("dsn", "", "PostgreSQL database to use; empty: in memory")
	child := flag.String("be-migrator", "", "for the program itself: be the migrator of this name")
	workID := flag.String("work", "", "for the program itself: the migrator's work ID")
	stopAt := flag.String("stop-at", "", "for the program itself: where the migrator waits for its end")
	flag.Parse()
	if err := run(*dsn, *child, *workID, point(*stopAt)); err != nil {
		log.Fatal(err)
	}
}

func run(dsn, child, workID string, stopAt point) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, closeLedger, err := openLedger(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLedger()) }()
	if child != "" {
		return beMigrator(ctx, migrator{name: child, ledger: l, stopAt: stopAt}, workID, os.Stdout)
	}

	if dsn == "" {
		fmt.Print("No -dsn: the story on memory, which has no transactions.\n\n")
	}
	// A name of its own for every run, so that each starts afresh.
	s := story{dsn: dsn, ledger: l, workID: fmt.Sprintf("ledger:%d", time.Now().UnixNano())}
	fmt.Printf("A ledger of %d entries, moved in batches of %d.\n", total, batch)
	return s.tell(ctx)
}

// story is told twice: on processes and PostgreSQL, on goroutines and memory.
type story struct {
	dsn    string
	ledger ledger
	workID string

	first backend.LeaseRecord // of the first migrator, for a late write
}

func (s *story) tell(ctx context.Context) error {
	for n, stopAt := range []point{written, stored, committed, never} {
		name := fmt.Sprintf("migrator-%d", n+1)
		if err := s.migrate(ctx, name, stopAt); err != nil {
			return err
		}
	}
	if err := s.lateWrite(ctx); err != nil {
		return err
	}

	rows, err := s.ledger.rows(ctx, s.workID)
	switch {
	case err != nil:
		return err
	case rows == total:
		fmt.Printf("\nChecked: %d entries, %d rows, each exactly once.\n", total, rows)
		return nil
	case s.dsn == "":
		fmt.Printf("\n%d entries, %d rows: at least once. With -dsn rows and cursor are one commit.\n", total, rows)
		return nil
	default:
		return fmt.Errorf("%d entries, but %d rows", total, rows)
	}
}

// migrate follows one migrator to its end, and holds rows and cursor against each
// other.
func (s *story) migrate(ctx context.Context, name string, stopAt point) error {
	v, err := s.start(ctx, name, stopAt)
	if err != nil {
		return err
	}
	fmt.Println()
	var record backend.LeaseRecord
	for ev := range v.events {
		switch ev.What {
		case acquired:
			record = backend.LeaseRecord{WorkID: s.workID, HolderID: name, FencingToken: ev.Token}
			fmt.Printf("%s  has the lease, token %d; the cursor is at %d\n", name, ev.Token, ev.Moved)
		case moved:
			fmt.Printf("%s  moved the entries up to %d\n", name, ev.Moved)
		case stopped:
			if err := v.kill(); err != nil {
				return err
			}
			fmt.Printf("%s  is killed in the batch up to %d, %s\n", name, ev.Moved, stopAt)
		}
	}
	if s.first.FencingToken == 0 {
		s.first = record
	}
	return s.compare(ctx, record)
}

// compare holds the rows against the cursor.
func (s *story) compare(ctx context.Context, record backend.LeaseRecord) error {
	rows, err := s.ledger.rows(ctx, s.workID)
	if err != nil {
		return err
	}
	cp, err := s.ledger.store().ReadCheckpoint(ctx, record)
	if err != nil {
		return err
	}
	at, err := decode(cp.State)
	if err != nil {
		return err
	}
	fmt.Printf("            rows %d, cursor %d\n", rows, at)
	if s.dsn != "" && rows != at {
		return fmt.Errorf("%d rows and a cursor at %d", rows, at)
	}
	return nil
}

// lateWrite sends a batch of the first migrator's, as it might have sent it before it
// died, and holds that nothing of it stays. On memory its rows would.
func (s *story) lateWrite(ctx context.Context) error {
	if s.dsn == "" {
		return nil
	}
	store := func(ctx context.Context, state []byte) error {
		return s.ledger.store().Checkpoint(ctx, s.first, state, ttl)
	}
	err := s.ledger.move(ctx, s.workID, batch, store, func(point) {})
	if !errors.Is(err, worklease.ErrFenced) {
		return errors.Join(errors.New("a late batch was not refused as fenced"), err)
	}
	fmt.Printf("\n%s  a late batch of its arrives, with token %d, and is rolled back:\n            %v\n",
		s.first.HolderID, s.first.FencingToken, err)
	return nil
}
