package peers

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/aetomala/worklease/internal/bench/measure"
)

// River works jobs that were inserted as a backlog, with as many workers as there
// are clients, so that its fetches and completions come in batches. Each job is a
// resumable one with a cursor: a durable one is stored at each step in a
// transaction (ResumableSetStepCursorTx), another only when the job ends in an
// error (ResumableSetCursor).
type River struct {
	DSN     string
	Steps   int
	Durable bool

	rates map[int]float64 // by clients, of the turn before, to size the backlog
}

type riverArgs struct {
	Steps   int  `json:"steps"`
	Durable bool `json:"durable"`
}

func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	pool *pgxpool.Pool
}

func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	if job.Args.Steps == 0 {
		return nil
	}
	river.ResumableStepCursor(ctx, "steps", nil, func(ctx context.Context, _ string) error {
		for range job.Args.Steps {
			if err := w.store(ctx, job); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

func (w *riverWorker) store(ctx context.Context, job *river.Job[riverArgs]) error {
	if !job.Args.Durable {
		return river.ResumableSetCursor(ctx, progress)
	}
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // a no-op after the commit
	if _, err := river.ResumableSetStepCursorTx[*riverpgxv5.Driver](ctx, tx, job, progress); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Prepare implements [measure.Work].
func (r *River) Prepare(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, r.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	return err
}

// firstRate is guessed for the first turn.
const firstRate = 150

// Run implements [measure.Work]. Time begins with the insertion, after the client has
// worked a quarter as many jobs, and ends with the last completion.
func (r *River) Run(ctx context.Context, clients int, length time.Duration) (measure.Done, error) {
	pool, err := newPool(ctx, r.DSN, clients)
	if err != nil {
		return measure.Done{}, err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{pool: pool})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: clients}},
		Workers: workers,
		Logger:  quiet,
		// The defaults, 100 ms and 1 s, would be all that is measured.
		FetchCooldown:     time.Millisecond,
		FetchPollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return measure.Done{}, err
	}

	if r.rates == nil {
		r.rates = make(map[int]float64)
	}
	rate := cmp.Or(r.rates[clients], firstRate)
	timed := max(clients, int(rate*length.Seconds()))
	completed, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: timed, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	defer cancel()
	if err := client.Start(ctx); err != nil {
		return measure.Done{}, err
	}
	work := func(jobs int) (time.Duration, error) {
		backlog := make([]river.InsertManyParams, jobs)
		for i := range backlog {
			backlog[i].Args = riverArgs{Steps: r.Steps, Durable: r.Durable}
		}
		start := time.Now()
		if _, err := client.InsertMany(ctx, backlog); err != nil {
			return 0, err
		}
		for range jobs {
			select {
			case <-completed:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return time.Since(start), nil
	}
	warm := max(clients, timed/4)
	if _, err := work(warm); err != nil {
		return measure.Done{}, err
	}
	elapsed, err := work(timed)
	if err != nil {
		return measure.Done{}, err
	}
	r.rates[clients] = float64(timed) / elapsed.Seconds()
	return measure.Done{Timed: timed, Elapsed: elapsed, All: warm + timed}, client.Stop(ctx)
}

// newPool is one with room for the clients and for what the library does beside
// them.
func newPool(ctx context.Context, dsn string, clients int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(clients) + 8
	return pgxpool.NewWithConfig(ctx, config)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))
