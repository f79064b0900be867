//go:build linux

// Package worker is one process of a fault run: it holds leases in every way
// that the library offers, badly at times, and writes down what it sees.
package worker

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/backend/postgres/pgxlisten"
	"github.com/aetomala/worklease/backend/postgres/pqlisten"
	"github.com/aetomala/worklease/internal/faults/history"
	"github.com/aetomala/worklease/worker"
)

// Config is what a worker process is told.
type Config struct {
	Driver string // "postgres" (lib/pq) or "pgx"
	DSN    string
	Holder string // never used twice
	IDs    int    // it works on w0, w1, …
	Slots  int    // how many leases it works on at once
	TTL    time.Duration
	Seed   uint64
	Dir    string // of the logs
	Notify bool   // it hears when leases are freed, and waits for some

	Ledgers int  // it works on l0, l1, … too, see Ledger
	Pooler  bool // a pooler in transaction mode stands before the server
}

// ID names a work ID of a run.
func ID(n int) string { return fmt.Sprintf("w%d", n) }

// connections bounds the pool of a process, below what its slots could use.
const connections = 6

// process is a running worker.
type process struct {
	Config
	db       *sql.DB
	listener *postgres.Listener // nil: none
	backend  *postgres.Backend
	lease    *logged
}

// Run works until ctx ends or the standard input does, which is the end of the
// run's own process.
//
// A line "exhaust 1s" on the standard input takes every connection of the pool
// for so long.
func Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := start(cfg)
	if err != nil {
		return err
	}
	defer p.db.Close()
	if p.listener != nil {
		defer p.listener.Close()
	}
	go func() {
		defer cancel()
		p.obey(ctx)
	}()

	var slots sync.WaitGroup
	for n := range cfg.Slots {
		rng := rand.New(rand.NewPCG(cfg.Seed, uint64(n)))
		slots.Go(func() {
			for ctx.Err() == nil {
				p.turn(ctx, rng)
			}
		})
	}
	slots.Wait()
	return p.lease.log.Close()
}

func start(cfg Config) (*process, error) {
	log, err := history.Open(cfg.Dir, cfg.Holder)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(cfg.Driver, cfg.DSN)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	var listener *postgres.Listener
	if cfg.Notify {
		listen := pqlisten.New
		if cfg.Driver == "pgx" {
			listen = pgxlisten.New
		}
		if listener, err = listen(cfg.DSN); err != nil {
			return nil, err
		}
	}
	opts := []postgres.Option{postgres.WithNotifications(listener)}
	if cfg.Pooler {
		opts = append(opts, postgres.WithTransactionPooler())
	}
	b, err := postgres.New(db, opts...)
	if err != nil {
		return nil, err
	}
	lease, err := worklease.New(b, worklease.Config{TTL: cfg.TTL, HolderID: cfg.Holder})
	if err != nil {
		return nil, err
	}
	return &process{Config: cfg, db: db, listener: listener, backend: b, lease: &logged{lease, log}}, nil
}

// obey does what the standard input says until it ends.
func (p *process) obey(ctx context.Context) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if d, err := time.ParseDuration(strings.TrimPrefix(lines.Text(), "exhaust ")); err == nil {
			go p.exhaust(ctx, d)
		}
	}
}

// exhaust keeps every connection of the pool for d.
func (p *process) exhaust(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var taken sync.WaitGroup
	for range connections {
		taken.Go(func() {
			if conn, err := p.db.Conn(ctx); err == nil {
				<-ctx.Done()
				_ = conn.Close() // back to the pool
			}
		})
	}
	taken.Wait()
}

// turn is one try at one lease.
func (p *process) turn(ctx context.Context, rng *rand.Rand) {
	id := ID(rng.IntN(p.IDs))
	t := &tenure{process: p, rng: rng}
	var err error
	switch n := rng.IntN(100); {
	case p.Ledgers > 0 && rng.IntN(4) == 0:
		err = t.ledger(ctx, Ledger(rng.IntN(p.Ledgers)))
	case n < 40:
		err = t.runner(ctx, id)
	case n < 85:
		err = t.direct(ctx, id)
	case n < 94:
		err = t.zombie(ctx, id)
	default:
		err = t.forget(ctx, id)
	}
	if err != nil {
		pause(ctx, between(rng, 10*time.Millisecond, 80*time.Millisecond))
	}
}

// tenure is one try at a lease, and what is done with it.
type tenure struct {
	*process
	rng *rand.Rand
	n   int
}

// state returns one that nobody else ever sends.
func (t *tenure) state(token worklease.Token) []byte {
	t.n++
	return fmt.Appendf(nil, "%s/%d/%d", t.Holder, token.FencingToken(), t.n)
}

// patience is how long one call may take: mostly enough, at times far too short.
func (t *tenure) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	d := between(t.rng, t.TTL/4, t.TTL)
	if t.rng.IntN(20) == 0 {
		d = between(t.rng, time.Millisecond/2, 5*time.Millisecond)
	}
	return context.WithTimeout(ctx, d)
}

// errFailed is what a work function fails with at times.
var errFailed = errors.New("the work failed")

// runner leaves the life of the lease to worker.Runner, and cancels it at times.
func (t *tenure) runner(ctx context.Context, id string) error {
	if t.rng.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, between(t.rng, time.Millisecond, 400*time.Millisecond))
		defer cancel()
	}
	r, err := worker.NewRunner(worker.RunnerConfig{
		Lease:          t.lease,
		AcquireOptions: t.waiting(),
		CleanupTimeout: t.TTL,
		RenewalOptions: t.renewal(),
		WorkFn: func(ctx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
			err := t.work(ctx, token)
			switch n := t.rng.IntN(10); {
			case err != nil:
				return nil, err
			case n < 2:
				return t.state(token), worklease.ErrRetire
			case n < 4:
				return t.state(token), errFailed
			case n < 5:
				return nil, nil
			default:
				return t.state(token), nil
			}
		},
	})
	if err != nil {
		return err
	}
	return r.Run(ctx, id)
}

// direct does by hand what a Runner does, and crashes out of it at times.
func (t *tenure) direct(ctx context.Context, id string) error {
	token, err := t.acquire(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewCtx, stop := t.lease.StartRenewal(ctx, token, t.renewal()...)
	defer stop()
	if err := t.work(renewCtx, token); err != nil {
		return err
	}
	if t.rng.IntN(8) == 0 {
		return nil // as if crashed: the lease lapses
	}
	stop()
	return t.leave(ctx, token)
}

// zombie does not renew, sleeps, and goes on as if nothing had happened.
func (t *tenure) zombie(ctx context.Context, id string) error {
	token, err := t.acquire(ctx, id)
	if err != nil {
		return err
	}
	pause(ctx, between(t.rng, 0, t.TTL*3/2))
	for range 4 {
		err = errors.Join(err, t.call(ctx, func(ctx context.Context) error {
			switch t.rng.IntN(4) {
			case 0:
				return t.read(ctx, token)
			case 1:
				return t.lease.Renew(ctx, token)
			case 2:
				return t.lease.Checkpoint(ctx, token, t.state(token))
			default:
				return t.leave(ctx, token)
			}
		}))
	}
	return err
}

// forget removes the lease in the end, released or not.
func (t *tenure) forget(ctx context.Context, id string) error {
	token, err := t.acquire(ctx, id)
	if err != nil {
		return err
	}
	err = t.call(ctx, func(ctx context.Context) error { return t.lease.Checkpoint(ctx, token, t.state(token)) })
	if t.rng.IntN(2) == 0 {
		err = errors.Join(err, t.leave(ctx, token))
	}
	return errors.Join(err, t.call(ctx, func(ctx context.Context) error { return t.lease.Forget(ctx, token) }))
}

// acquire takes the lease and reads what was left.
func (t *tenure) acquire(ctx context.Context, id string) (token worklease.Token, err error) {
	err = t.call(ctx, func(ctx context.Context) error {
		token, err = t.lease.Acquire(ctx, id, t.waiting()...)
		return err
	})
	if err != nil {
		return token, err
	}
	return token, t.call(ctx, func(ctx context.Context) error { return t.read(ctx, token) })
}

func (t *tenure) read(ctx context.Context, token worklease.Token) error {
	_, err := t.lease.ReadCheckpoint(ctx, token)
	return err
}

// work makes some calls under a renewed lease, as long as it is held.
func (t *tenure) work(ctx context.Context, token worklease.Token) error {
	for range 2 + t.rng.IntN(20) {
		t.lease.believe(ctx, token)
		err := t.call(ctx, func(ctx context.Context) error {
			switch t.rng.IntN(8) {
			case 0:
				return t.read(ctx, token)
			case 1:
				return t.lease.Renew(ctx, token)
			case 2:
				return t.lease.Checkpoint(ctx, token, nil)
			default:
				return t.lease.Checkpoint(ctx, token, t.state(token))
			}
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, worklease.ErrFenced), errors.Is(err, worklease.ErrLeaseExpired):
			return err
		}
		pause(ctx, between(t.rng, 0, 20*time.Millisecond))
	}
	t.lease.believe(ctx, token)
	return nil
}

// leave releases the lease.
func (t *tenure) leave(ctx context.Context, token worklease.Token) error {
	modes := []worklease.ExitMode{worklease.ExitFinished, worklease.ExitAbandoned, worklease.ExitRetired}
	mode := modes[t.rng.IntN(len(modes))]
	return t.call(ctx, func(ctx context.Context) error { return t.lease.Release(ctx, token, mode) })
}

func (t *tenure) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := t.patience(ctx)
	defer cancel()
	return do(ctx)
}

// waiting makes a few attempts wait where the process hears when leases are freed. The
// poll alone would hardly ever come in time.
func (t *tenure) waiting() []worklease.AcquireOption {
	if !t.Notify || t.rng.IntN(5) > 0 {
		return nil
	}
	return []worklease.AcquireOption{worklease.WithWaitForLease(), worklease.WithPollInterval(2 * t.TTL)}
}

func (t *tenure) renewal() []worklease.RenewalOption {
	return []worklease.RenewalOption{
		worklease.WithRenewalInterval(between(t.rng, t.TTL/10, t.TTL/2)),
		worklease.WithRenewalBackoff(t.TTL/20, t.TTL/4, 0.2),
	}
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
