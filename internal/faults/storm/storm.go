//go:build linux

// Package storm runs worker processes against a real PostgreSQL server and does
// to both what the plan says.
package storm

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/aetomala/worklease/internal/faults/checker"
	"github.com/aetomala/worklease/internal/faults/plan"
	"github.com/aetomala/worklease/internal/faults/worker"
)

// Config says how a run is.
type Config struct {
	Seed    uint64
	Length  time.Duration // of the storm
	Workers int           // processes
	Slots   int           // leases that a process works on at once
	IDs     int
	TTL     time.Duration
	Drivers []string  // of database/sql; the processes take turns
	Notify  bool      // whether they hear when leases are freed
	Ledgers int       // further work IDs, whose checkpoints commit with rows
	Pooler  bool      // whether the processes go through a pooler
	Dir     string    // an empty directory for everything that the run leaves
	Verbose io.Writer // hears of every fault
}

// Logs is the directory of the histories in a run's directory.
func Logs(dir string) string { return filepath.Join(dir, "logs") }

func (c Config) logs() string { return Logs(c.Dir) }

// Counts say what a run did.
type Counts struct {
	Faults      map[plan.Kind]int // done, by kind
	LongFreezes int               // that did last longer than the TTL
	LostReplies int               // replies that were really cut off
}

// Cuts counts those of a worker's network.
func (c Counts) Cuts() int {
	n := 0
	for kind, count := range c.Faults {
		if kind.Cut() {
			n += count
		}
	}
	return n
}

// storm is a run under way.
type storm struct {
	Config
	server  *server
	auditor *auditor
	workers []*process
	links   []*link
	counts  Counts
	agenda  []step // by time
	began   time.Time
}

// step is something to do at a time.
type step struct {
	at time.Duration
	do func(context.Context) error
}

// Run makes the storm and waits until it is over and every process has ended.
// The histories are in [Logs] then. It must be called on the main thread of the
// process, with which all others die.
func Run(ctx context.Context, cfg Config) (counts Counts, err error) {
	s := &storm{Config: cfg, counts: Counts{Faults: map[plan.Kind]int{}}}
	// The server's user passes through.
	if err = os.Chmod(cfg.Dir, 0o711); err != nil {
		return counts, err
	}
	if err = os.Mkdir(cfg.logs(), 0o700); err != nil {
		return counts, err
	}
	if s.server, err = newServer(ctx, cfg.Dir); err != nil {
		return counts, err
	}
	defer func() { err = errors.Join(err, s.server.crash()) }()
	if s.auditor, err = newAuditor(s.server.dsn(s.server.port), cfg.logs()); err != nil {
		return counts, err
	}
	defer func() { err = errors.Join(err, s.auditor.close()) }()
	port := s.server.port
	if cfg.Pooler {
		var p *pooler
		if p, err = startPooler(ctx, s.server, cfg.Dir); err != nil {
			return counts, err
		}
		defer p.stop()
		port = p.port
	}
	for n := range cfg.Workers {
		var l *link
		if l, err = newLink(port); err != nil {
			return counts, err
		}
		defer l.close()
		p := &process{config: cfg, number: n, dsn: s.server.dsn(l.port())}
		if err = p.start(); err != nil {
			return counts, err
		}
		defer p.running.Process.Kill() //nolint:errcheck // After an error only.
		s.links, s.workers = append(s.links, l), append(s.workers, p)
	}

	for _, f := range plan.New(cfg.Seed, cfg.Length, cfg.Workers, cfg.TTL) {
		s.later(f.At, func(ctx context.Context) error { return s.strike(ctx, f) })
	}
	if err = s.weather(ctx); err != nil {
		return s.counts, err
	}
	for _, p := range s.workers {
		err = errors.Join(err, p.stop())
	}
	for _, l := range s.links {
		s.counts.LostReplies += l.lost()
	}
	if err != nil {
		return s.counts, err
	}
	return s.counts, s.settle(ctx)
}

func (s *storm) later(at time.Duration, do func(context.Context) error) {
	i, _ := slices.BinarySearchFunc(s.agenda, at, func(s step, at time.Duration) int {
		if s.at <= at {
			return -1
		}
		return 1
	})
	s.agenda = slices.Insert(s.agenda, i, step{at, do})
}

// weather does what is on the agenda, and returns when the storm is over.
func (s *storm) weather(ctx context.Context) error {
	s.began = time.Now()
	over := false
	s.later(s.Length, func(context.Context) error {
		over = true
		return nil
	})
	for !over || len(s.agenda) > 0 {
		next := s.agenda[0]
		s.agenda = s.agenda[1:]
		select {
		case <-time.After(time.Until(s.began.Add(next.at))):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := next.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// strike makes one fault happen, and puts its end on the agenda.
func (s *storm) strike(ctx context.Context, f plan.Fault) error {
	fmt.Fprintln(s.Verbose, f)
	p, l := s.workers[f.Worker], s.links[f.Worker]
	end := func(do func(context.Context) error) { s.later(time.Since(s.began)+f.For, do) }
	healing := func(context.Context) error { return l.heal() }
	count := func(err error) error {
		if err == nil {
			s.counts.Faults[f.Kind]++
		}
		return err
	}
	switch f.Kind {
	case plan.Kill:
		return count(errors.Join(p.kill(), s.audit(ctx), p.start()))
	case plan.FreezeShort, plan.FreezeLong:
		end(func(context.Context) error {
			frozen, err := p.thaw()
			if frozen > s.TTL {
				s.counts.LongFreezes++
			}
			return err
		})
		return count(p.freeze())
	case plan.Reset:
		end(healing)
		return count(l.reset())
	case plan.Swallow:
		end(healing)
		return count(l.swallow())
	case plan.Delay:
		end(healing)
		return count(l.delay(s.TTL / 8))
	case plan.LoseReply:
		end(healing)
		return count(l.loseReplies())
	case plan.Terminate:
		if s.server.running == nil {
			return nil
		}
		return count(s.server.terminate(ctx))
	case plan.Exhaust:
		return count(p.exhaust(f.For))
	case plan.Crash:
		if s.server.running == nil {
			return nil
		}
		end(func(ctx context.Context) error { return errors.Join(s.server.start(ctx), s.audit(ctx)) })
		return count(s.server.crash())
	default:
		return fmt.Errorf("storm: unknown fault %q", f.Kind)
	}
}

// audit looks at the ledgers, unless the server is down, which audits when it comes up.
func (s *storm) audit(ctx context.Context) error {
	if s.server.running == nil {
		return nil
	}
	return s.auditor.audit(ctx)
}

// settle acquires every ID after the storm as a last process, whose log tells,
// and writes the table down.
func (s *storm) settle(ctx context.Context) error {
	// What the abandoned calls of the last processes took has lapsed by then.
	select {
	case <-time.After(2 * s.TTL):
	case <-ctx.Done():
		return ctx.Err()
	}
	dsn := s.server.dsn(s.server.port)
	err := worker.Last(ctx, worker.Config{
		Driver: s.Drivers[0], DSN: dsn, Holder: checker.Final, IDs: s.IDs, Ledgers: s.Ledgers, TTL: time.Minute, Dir: s.logs(),
	})
	if err = errors.Join(err, s.audit(ctx)); err != nil {
		return err
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return dump(ctx, db, s.logs())
}
