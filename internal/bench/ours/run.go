package ours

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/worker"
)

// Runner is a whole worker.Runner.Run, with so many checkpoints made by its
// function.
func Runner(s *Store, driver Driver, checkpoints int) measure.Work {
	open := func(ctx context.Context, clients int) (measure.Session, error) {
		db, err := driver.open(ctx, s.dsn, clients)
		if err != nil {
			return measure.Session{}, err
		}
		runner, err := newRunner(db, checkpoints)
		if err != nil {
			db.Close()
			return measure.Session{}, err
		}
		do := func(ctx context.Context, n int) error { return runner.Run(ctx, strconv.Itoa(n)) }
		return measure.Session{Do: do, Close: db.Close}, nil
	}
	return measure.Loop{Ready: s.laid(rows{count: maxClients}), Open: open}
}

func newRunner(db *sql.DB, checkpoints int) (*worker.Runner, error) {
	b, err := postgres.New(db)
	if err != nil {
		return nil, err
	}
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: holder})
	if err != nil {
		return nil, err
	}
	work := func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
		for range checkpoints {
			if err := lease.Checkpoint(ctx, token, state); err != nil {
				return nil, err
			}
		}
		return nil, nil // leaves the last checkpoint as it is
	}
	return worker.NewRunner(worker.RunnerConfig{Lease: lease, WorkFn: work})
}
