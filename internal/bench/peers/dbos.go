package peers

import (
	"context"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aetomala/worklease/internal/bench/measure"
)

// DBOS runs a workflow whose steps each return the progress, which the library
// stores. Each client starts one and waits for its result.
func DBOS(dsn string, steps int) measure.Work {
	return measure.Loop{
		Ready: func(ctx context.Context) error { return readyDBOS(ctx, dsn) },
		Open: func(ctx context.Context, clients int) (measure.Session, error) {
			pool, err := newPool(ctx, dsn, clients)
			if err != nil {
				return measure.Session{}, err
			}
			dbosCtx, err := launch(ctx, pool)
			do := func(context.Context, int) error {
				handle, err := dbos.RunWorkflow(dbosCtx, workflow, steps)
				if err != nil {
					return err
				}
				_, err = handle.GetResult()
				return err
			}
			shutdown := func() error {
				defer pool.Close()
				return dbos.Shutdown(dbosCtx, 10*time.Second)
			}
			return measure.Session{Do: do, Close: shutdown}, err
		},
	}
}

func workflow(ctx dbos.Context, steps int) (string, error) {
	for range steps {
		if _, err := dbos.RunAsStep(ctx, step); err != nil {
			return "", err
		}
	}
	return "", nil
}

func step(context.Context) (string, error) { return progress, nil }

// launch starts DBOS, which makes its tables where they are missing.
func launch(ctx context.Context, pool *pgxpool.Pool) (dbos.Context, error) {
	dbosCtx, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", SystemDBPool: pool, Logger: quiet})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(dbosCtx, workflow)
	return dbosCtx, dbos.Launch(dbosCtx)
}

// readyDBOS makes the tables, and forgets the workflows of earlier turns.
func readyDBOS(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := dbos.Migrate(ctx, dsn, dbos.WithMigrateLogger(quiet)); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "TRUNCATE dbos.workflow_status CASCADE")
	return err
}
