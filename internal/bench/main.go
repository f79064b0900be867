//go:build linux

// Command bench measures worklease against the limit of its server and beside its
// peers, and writes what it found.
//
//	bench [flags]           compare, and write docs/benchmarks.md
//	bench -growth [flags]   look at tables that grow, and add that
//	bench -write            write docs/benchmarks.md again from docs/benchmarks/results.json
//
// It starts the servers that it needs on loopback and ends them. With -rounds 1
// it shows within a few minutes that everything works.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/ours"
	"github.com/aetomala/worklease/internal/bench/plan"
	"github.com/aetomala/worklease/internal/bench/report"
)

func main() {
	// The servers die with the thread that started them.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	root, docs string
	rounds     int
	length     time.Duration
	only       string
	growth     bool
	hold       time.Duration
	write      bool
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "the repository")
	flags.StringVar(&o.docs, "docs", "", "where the report goes; its docs unless set")
	flags.IntVar(&o.rounds, "rounds", 5, "how often everything is measured; with -growth and 0 only sizes are")
	flags.DurationVar(&o.length, "length", 2*time.Second, "of each turn; pgbench takes whole seconds")
	flags.StringVar(&o.only, "only", "", "only tables whose name contains this")
	flags.BoolVar(&o.growth, "growth", false, "look at tables that grow, in place of comparing")
	flags.DurationVar(&o.hold, "hold", time.Hour, "with -growth: how long leases are held, to see the table grow; 0 for not at all")
	flags.BoolVar(&o.write, "write", false, "measure nothing, write the report again")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.docs == "" {
		o.docs = filepath.Join(o.root, "docs")
	}
	file := filepath.Join(o.docs, "benchmarks", "results.json")
	results, err := report.Load(file)
	if err != nil {
		return err
	}
	if !o.write {
		if err := o.measure(ctx, &results); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := results.Save(file); err != nil {
			return err
		}
	}
	return results.Write(o.docs)
}

// measure starts the servers, measures and fills in results.
func (o options) measure(ctx context.Context, results *report.Results) (err error) {
	start := time.Now()
	servers, err := plan.Start(ctx, o.root)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := servers.Close(); err == nil {
			err = closeErr
		}
	}()
	about, err := report.Look(ctx, servers, o.rounds, o.length)
	if err != nil {
		return err
	}
	if o.growth {
		return o.grow(ctx, servers, about, results, os.Stderr)
	}
	results.Compared, err = o.compare(ctx, servers, os.Stderr)
	if err == nil {
		results.Compared.About = about.After(start)
	}
	return err
}

func (o options) compare(ctx context.Context, s *plan.Servers, log io.Writer) (*report.Compared, error) {
	c := &report.Compared{Samples: measure.Samples{}}
	err := measure.Run(ctx, o.chosen(s.Tables(o.length)), o.rounds, c.Samples, log)
	if err != nil {
		return nil, err
	}
	if o.wants("held") {
		c.Held, err = o.hoard(ctx, s, log)
	}
	return c, err
}

// hoard holds leases, renewed in both ways in turns. The most are held in each
// round, fewer in the first alone, for the plots.
func (o options) hoard(ctx context.Context, s *plan.Servers, log io.Writer) ([]report.Holding, error) {
	var holdings []report.Holding
	for _, leases := range plan.HeldLeases {
		holdings = append(holdings, report.Holding{Leases: leases}, report.Holding{Leases: leases, Batched: true})
	}
	most := holdings[len(holdings)-2:]
	for round := range o.rounds {
		turns := most
		if round == 0 {
			turns = holdings
		}
		for i := range turns {
			h := &turns[(i+round)%len(turns)]
			held, err := ours.Hold(ctx, s.Store, s.Postgres, h.Leases, h.Batched)
			if err != nil {
				return nil, fmt.Errorf("holding %d leases: %w", h.Leases, err)
			}
			fmt.Fprintf(log, "%d held %d, batched %t: %.0f renewals, %.0f flushes, %.2f s of CPU, %.0f bytes a lease, %.0f goroutines\n",
				round+1, h.Leases, h.Batched, held.Renewed, held.Cost.Flushes, held.Cost.CPU, held.Bytes, held.Goroutines)
			h.Rounds = append(h.Rounds, held)
		}
	}
	return holdings, nil
}

// growthLeases are held to see the table grow.
const growthLeases = 10_000

// grow measures what it is to: rates in rounds, sizes over time.
func (o options) grow(ctx context.Context, s *plan.Servers, about report.About, results *report.Results, log io.Writer) error {
	if o.rounds > 0 {
		start := time.Now()
		rows := &report.Rows{Samples: measure.Samples{}}
		if err := measure.Run(ctx, o.chosen(s.Growth(o.length)), o.rounds, rows.Samples, log); err != nil {
			return err
		}
		rows.About = about.After(start)
		results.Rows = rows
	}
	if o.hold > 0 {
		start := time.Now()
		minute, end, err := ours.Grow(ctx, s.Store, growthLeases, o.hold)
		if err != nil {
			return err
		}
		results.Hour = &report.Hour{About: about.After(start), Leases: growthLeases, Length: o.hold, Minute: minute, End: end}
	}
	return nil
}

// wants reports whether something is to be measured.
func (o options) wants(name string) bool { return strings.Contains(name, o.only) }

func (o options) chosen(tables []measure.Table) []measure.Table {
	var chosen []measure.Table
	for _, t := range tables {
		if o.wants(t.ID) {
			chosen = append(chosen, t)
		}
	}
	return chosen
}
