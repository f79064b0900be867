//go:build linux

// Command faults runs worker processes on a real PostgreSQL server, lets
// everything go wrong that can be made to, and holds what the processes saw
// against what worklease promises.
//
//	faults [flags]          run a storm and judge it
//	faults check DIR        judge the logs in a run's directory again
//
// It fails on any broken promise, and where less went wrong than should have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aetomala/worklease/internal/faults/checker"
	"github.com/aetomala/worklease/internal/faults/history"
	"github.com/aetomala/worklease/internal/faults/plan"
	"github.com/aetomala/worklease/internal/faults/storm"
	"github.com/aetomala/worklease/internal/faults/worker"
)

func main() {
	// The processes started here die with the thread that started them.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "worker":
		return work(ctx, args[1:])
	case len(args) == 2 && args[0] == "check":
		_, err := judge(args[1])
		return err
	default:
		return soak(ctx, args)
	}
}

// work is what a worker process does.
func work(ctx context.Context, args []string) error {
	var cfg worker.Config
	flags := flag.NewFlagSet("faults worker", flag.ContinueOnError)
	flags.StringVar(&cfg.Driver, "driver", "postgres", "")
	flags.StringVar(&cfg.DSN, "dsn", "", "")
	flags.StringVar(&cfg.Holder, "holder", "", "")
	flags.StringVar(&cfg.Dir, "dir", "", "")
	flags.IntVar(&cfg.IDs, "ids", 0, "")
	flags.IntVar(&cfg.Slots, "slots", 0, "")
	flags.DurationVar(&cfg.TTL, "ttl", 0, "")
	flags.Uint64Var(&cfg.Seed, "seed", 0, "")
	flags.BoolVar(&cfg.Notify, "notify", false, "")
	flags.IntVar(&cfg.Ledgers, "ledgers", 0, "")
	flags.BoolVar(&cfg.Pooler, "pooler", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return worker.Run(ctx, cfg)
}

// soak runs a storm and judges it.
func soak(ctx context.Context, args []string) error {
	cfg := storm.Config{Verbose: io.Discard}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.DurationVar(&cfg.Length, "for", time.Minute, "how long the storm lasts")
	flags.Uint64Var(&cfg.Seed, "seed", rand.Uint64N(1e9), "which storm; the same seed plans the same one")
	flags.IntVar(&cfg.Workers, "workers", 4, "worker processes")
	flags.IntVar(&cfg.Slots, "slots", 5, "leases that a process works on at once")
	flags.IntVar(&cfg.IDs, "ids", 16, "work IDs")
	flags.IntVar(&cfg.Ledgers, "ledgers", 4, "more work IDs, whose checkpoints commit with rows")
	flags.DurationVar(&cfg.TTL, "ttl", 2*time.Second, "TTL of the leases")
	flags.StringVar(&cfg.Dir, "dir", "", "an empty directory for the logs, kept; else a temporary one, kept on failure")
	flags.BoolVar(&cfg.Notify, "notify", false, "the processes hear when leases are freed, and wait for some")
	flags.BoolVar(&cfg.Pooler, "pooler", false, "the processes go through pgbouncer in transaction mode")
	drivers := flags.String("drivers", "postgres,pgx", "the processes take turns with these drivers")
	verbose := flags.Bool("v", false, "tell every fault")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if cfg.Pooler && cfg.Notify {
		return errors.New("-pooler and -notify: nobody hears anything through a pooler in transaction mode")
	}
	cfg.Drivers = strings.Split(*drivers, ",")
	if *verbose {
		cfg.Verbose = os.Stdout
	}
	keep := cfg.Dir != ""
	if !keep {
		dir, err := os.MkdirTemp("", "worklease-faults-")
		if err != nil {
			return err
		}
		cfg.Dir = dir
	}

	fmt.Printf("seed %d: %v, %d processes of %d slots (%s), %d work IDs and %d ledgers, TTL %v\n",
		cfg.Seed, cfg.Length, cfg.Workers, cfg.Slots, *drivers, cfg.IDs, cfg.Ledgers, cfg.TTL)
	counts, err := storm.Run(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w (logs in %s)", err, cfg.Dir)
	}
	summary, err := judge(cfg.Dir)
	report(counts)
	err = errors.Join(err, enough(counts, summary, cfg.Length))
	switch {
	case err != nil:
		return fmt.Errorf("%w (logs in %s)", err, cfg.Dir)
	case !keep:
		return os.RemoveAll(cfg.Dir)
	}
	return nil
}

// shown is how many violations are printed.
const shown = 20

// judge holds the logs of a run against the promises.
func judge(dir string) (checker.Summary, error) {
	if _, err := os.Stat(storm.Logs(dir)); err == nil {
		dir = storm.Logs(dir)
	}
	h, err := history.Load(filepath.Clean(dir))
	if err != nil {
		return checker.Summary{}, err
	}
	s := checker.Summarize(h)
	fmt.Printf("operations %d\n", s.Operations)
	for _, r := range slices.Sorted(maps.Keys(s.Results)) {
		fmt.Printf("  %-12s %d\n", r, s.Results[r])
	}
	fmt.Printf("handoffs %d\n", s.Handoffs)
	fmt.Printf("ledgers  %d entries, audited %d times\n", s.Entries, s.Audits)
	found := checker.Check(h)
	for _, v := range found[:min(len(found), shown)] {
		fmt.Println(v)
	}
	fmt.Printf("violations %d\n", len(found))
	if len(found) > 0 {
		return s, fmt.Errorf("%d violations", len(found))
	}
	return s, nil
}

func report(c storm.Counts) {
	for _, kind := range slices.Sorted(maps.Keys(c.Faults)) {
		fmt.Printf("%-20s %d\n", kind, c.Faults[kind])
	}
	fmt.Printf("%-20s %d\n", "freezes beyond TTL", c.LongFreezes)
	fmt.Printf("%-20s %d\n", "cuts", c.Cuts())
	fmt.Printf("%-20s %d\n", "lost replies", c.LostReplies)
}

// enough says whether a run went wrong as often as half an hour of it should,
// in proportion.
func enough(c storm.Counts, s checker.Summary, length time.Duration) error {
	share := length.Minutes() / 30
	var few []error
	for _, want := range []struct {
		name       string
		got, least int
	}{
		{"operations", s.Operations, 200_000},
		{"handoffs", s.Handoffs, 2_000},
		{"kills", c.Faults[plan.Kill], 50},
		{"freezes beyond the TTL", c.LongFreezes, 50},
		{"cuts", c.Cuts(), 50},
		{"lost replies", c.LostReplies, 50},
		{"server crashes", c.Faults[plan.Crash], 10},
		{"entries in the ledgers", int(s.Entries), 20_000},
		{"audits of the ledgers", s.Audits, 200},
	} {
		if least := int(float64(want.least)*share + 0.5); want.got < least {
			few = append(few, fmt.Errorf("%d %s, want %d", want.got, want.name, least))
		}
	}
	return errors.Join(few...)
}
