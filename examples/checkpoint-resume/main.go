// Checkpoint-resume moves the rows of a table in batches and keeps a cursor in
// the checkpoint, so that a migration which is interrupted goes on where it was.
//
// The program interrupts itself: it starts the migration, stops it after some
// batches as a deployment would, starts it again, and once more when it is done.
//
//	go run ./examples/checkpoint-resume -dsn 'postgres://localhost/test?sslmode=disable'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/checkpoint"
	"github.com/aetomala/worklease/examples/internal/store"
	"github.com/aetomala/worklease/worker"
)

const (
	rows  = 1000 // in the table
	batch = 150
)

// cursor is the checkpoint: where the next batch starts.
type cursor struct {
	NextRow int `json:"next_row"`
}

func main() {
	log.SetFlags(0)
	dsn := flag.String("dsn", "", "PostgreSQL database to use; empty: in memory")
	flag.Parse()
	if err := run(context.Background(), *dsn); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dsn string) (err error) {
	b, closeStore, err := store.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	lease, err := worklease.New(b, worklease.Config{TTL: 10 * time.Second, HolderID: "migrator"})
	if err != nil {
		return err
	}

	// A name of its own for every run, so that each starts afresh.
	workID := fmt.Sprintf("migration:0042:%d", time.Now().UnixNano())
	for _, attempt := range []struct {
		title     string
		stopAfter int // batches; 0: none
	}{
		{"First start; a deployment stops it after 3 batches.", 3},
		{"Second start.", 0},
		{"Third start, although all is done.", 0},
	} {
		fmt.Println(attempt.title)
		deployment, stop := context.WithCancel(ctx)
		m := migration{lease: lease, afterBatch: func(n int) {
			if n == attempt.stopAfter {
				stop()
			}
		}}
		runner, err := worker.NewRunner(worker.RunnerConfig{Lease: lease, WorkFn: m.work})
		if err != nil {
			stop()
			return err
		}
		err = runner.Run(deployment, workID)
		stop()
		fmt.Printf("  Run returned: %v\n", err)
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

// migration moves the rows.
type migration struct {
	lease      worklease.Lease
	afterBatch func(n int)
}

func (m *migration) work(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
	if prior.PrevExit == worklease.ExitRetired {
		fmt.Println("  it was retired: nothing to do")
		return nil, worklease.ErrRetire // and it stays retired
	}
	at, err := checkpoint.Decode[cursor](checkpoint.JSON(), prior.State)
	if err != nil {
		return nil, err
	}
	fmt.Printf("  previous exit: %s; starting at row %d\n", prior.PrevExit, at.NextRow)

	for n := 1; at.NextRow < rows; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err // what was stored last is where to go on
		}
		end := min(at.NextRow+batch, rows)
		fmt.Printf("  rows %d to %d moved\n", at.NextRow, end-1)
		at.NextRow = end

		state, err := checkpoint.Encode(checkpoint.JSON(), at)
		if err != nil {
			return nil, err
		}
		if err := m.lease.Checkpoint(ctx, token, state); err != nil {
			return nil, err
		}
		m.afterBatch(n)
	}
	return nil, worklease.ErrRetire // done for good; the stored cursor stays
}
