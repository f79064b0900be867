// Crash-recovery tells what happens to a job of several steps whose worker dies
// in the middle of one.
//
// Worker A stores its progress after each step and is killed. Worker B waits
// until the lease has lapsed, takes over, and resumes at the step after the last
// one that was acknowledged to A; the program checks that it does. A write of A
// that comes late is refused.
//
// Without a DSN both workers are goroutines and the lease is in memory. With one,
// worker A is a process of its own, which is killed with SIGKILL:
//
//	go run ./examples/crash-recovery -dsn 'postgres://localhost/test?sslmode=disable'
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
	"github.com/aetomala/worklease/examples/internal/store"
)

func main() {
	log.SetFlags(0)
	dsn := flag.String("dsn", "", "PostgreSQL database to use; empty: in memory")
	child := flag.String("be-worker-a", "", "for the program itself: be worker A, on this work ID")
	flag.Parse()
	if err := run(*dsn, *child); err != nil {
		log.Fatal(err)
	}
}

func run(dsn, child string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, closeStore, err := store.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if child != "" {
		return beWorkerA(ctx, b, child, os.Stdout)
	}

	// A name of its own for every run, so that each starts afresh.
	workID := fmt.Sprintf("onboarding:tenant-42:%d", time.Now().UnixNano())
	fmt.Printf("A job of %d steps, a lease of %v, two workers.\n\n", len(steps), ttl)
	var a victim
	if dsn == "" {
		a = startGoroutine(ctx, b, workID)
	} else if a, err = startProcess(ctx, dsn, workID); err != nil {
		return err
	}
	s := story{backend: b, workID: workID}
	if err := s.crash(a); err != nil {
		return err
	}
	return s.recovery(ctx)
}

// story is told twice: on goroutines and on processes.
type story struct {
	backend backend.Backend
	workID  string

	acknowledged int    // the last step that was stored for A
	tokenA       uint64 // A's fencing token
}

// crash follows worker A until it is in the middle of its last step, and kills it.
func (s *story) crash(a victim) error {
	for ev := range a.events {
		narrate(ev)
		s.tokenA = ev.Token
		if ev.What == stored {
			s.acknowledged = ev.Step
		}
		if ev.What == begun && ev.Step == fatal {
			if err := a.kill(); err != nil {
				return err
			}
			fmt.Printf("\n%s  is killed in the middle of step %d. It released nothing.\n\n", workerA, fatal)
			return nil
		}
	}
	return fmt.Errorf("%s ended before step %d", workerA, fatal)
}

// recovery lets worker B take over, checks where it resumes, and sends a write of
// worker A's too late.
func (s *story) recovery(ctx context.Context) error {
	var first event // of B, with the step that it resumed at
	var problems []error
	b := employee{
		name: workerB,
		tell: func(ev event) {
			narrate(ev)
			if ev.What == acquired {
				first = ev
			} else if first.Step == 0 {
				first.Step = ev.Step
			}
		},
		during: func(ctx context.Context, step int) error {
			if step == fatal {
				problems = append(problems, s.lateWrite(ctx))
			}
			return nil
		},
	}
	fmt.Printf("%s  waits for the lease\n", workerB)
	if err := b.run(ctx, s.backend, s.workID); err != nil {
		return err
	}
	fmt.Printf("%s  is done and has released the lease\n\n", workerB)

	switch {
	case first.PrevExit != worklease.ExitExpired.String() || first.PrevHolder != workerA:
		problems = append(problems, fmt.Errorf("worker B found exit %s of %q", first.PrevExit, first.PrevHolder))
	case first.Step != s.acknowledged+1:
		problems = append(problems, fmt.Errorf("worker B resumed at step %d; the last acknowledged was %d", first.Step, s.acknowledged))
	case first.Token <= s.tokenA:
		problems = append(problems, fmt.Errorf("token %d of B is not above %d of A", first.Token, s.tokenA))
	default:
		fmt.Printf("Checked: step %d was the last acknowledged to %s, and %s resumed at step %d.\n",
			s.acknowledged, workerA, workerB, first.Step)
	}
	return errors.Join(problems...)
}

// lateWrite sends a checkpoint that worker A might have sent before it died, and
// that was long on its way.
func (s *story) lateWrite(ctx context.Context) error {
	record := backend.LeaseRecord{WorkID: s.workID, HolderID: workerA, FencingToken: s.tokenA}
	err := s.backend.Checkpoint(ctx, record, []byte(`{"done":1}`), ttl)
	if !errors.Is(err, worklease.ErrFenced) {
		return errors.Join(errors.New("a write of the dead worker A was not refused as fenced"), err)
	}
	fmt.Printf("%s  a late write of its arrives, with token %d, and is refused: %v\n", workerA, s.tokenA, err)
	return nil
}

func narrate(ev event) {
	switch ev.What {
	case acquired:
		before := "nobody had it before"
		if ev.PrevHolder != "" {
			before = fmt.Sprintf("%s had it before, exit: %s, steps stored: %d", ev.PrevHolder, ev.PrevExit, ev.Done)
		}
		fmt.Printf("%s  has the lease, token %d; %s\n", ev.Worker, ev.Token, before)
	case begun:
		fmt.Printf("%s  step %d, %s: begun\n", ev.Worker, ev.Step, steps[ev.Step-1])
	case stored:
		fmt.Printf("%s  step %d, %s: done and stored\n", ev.Worker, ev.Step, steps[ev.Step-1])
	}
}
