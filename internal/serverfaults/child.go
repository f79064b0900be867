package serverfaults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
)

// envTask makes a process a child, and says what it is to do.
const envTask = "WORKLEASE_SERVERFAULTS_TASK"

// task is what a child is to do: workers that call the backend all at once, or hold a
// lease until it is killed.
type task struct {
	Driver, DSN string
	Option      bool // WithTransactionPooler
	Process     int

	Hold string // the work ID
	TTL  time.Duration
}

// tally is what a child reports.
type tally struct {
	Calls  int
	Errors []string
	Wrong  []string // answers that were another statement's
}

func (t *tally) add(o tally) {
	t.Calls += o.Calls
	t.Errors = append(t.Errors, o.Errors...)
	t.Wrong = append(t.Wrong, o.Wrong...)
}

// Child does the task of this process and ends it, if it was started for one.
func Child() {
	text := os.Getenv(envTask)
	if text == "" {
		return
	}
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		fail(err)
	}
	if t.Hold != "" {
		fail(t.hold())
	}
	total, err := t.run()
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(total); err != nil {
		fail(err)
	}
	os.Exit(0)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// hold returns only if it fails.
func (t task) hold() error {
	db, err := sql.Open(t.Driver, t.DSN)
	if err != nil {
		return err
	}
	b, err := postgres.New(db)
	if err != nil {
		return err
	}
	lease, err := worklease.New(b, worklease.Config{TTL: t.TTL, HolderID: "victim"})
	if err != nil {
		return err
	}
	token, err := lease.Acquire(context.Background(), t.Hold)
	if err != nil {
		return err
	}
	renewCtx, stop := lease.StartRenewal(context.Background(), token)
	defer stop()
	fmt.Fprintln(os.Stdout, "holds")
	<-renewCtx.Done()
	return context.Cause(renewCtx)
}

func (t task) run() (total tally, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := sql.Open(t.Driver, t.DSN)
	if err != nil {
		return total, err
	}
	defer db.Close()
	db.SetMaxIdleConns(workers)
	var opts []postgres.Option
	if t.Option {
		opts = append(opts, postgres.WithTransactionPooler())
	}
	b, err := postgres.New(db, opts...)
	if err != nil {
		return total, err
	}

	tallies := make([]tally, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for r := range rounds {
				tallies[w].round(ctx, b, fmt.Sprintf("id-%d-%d-%d", t.Process, w, r))
			}
		})
	}
	all.Wait()
	for _, one := range tallies {
		total.add(one)
	}
	return total, nil
}

// callsOfRound is how many calls a round makes when none fails.
const callsOfRound = 9

// round lives the life of one lease, and holds each answer against what only
// its own statement can say.
func (t *tally) round(ctx context.Context, b *postgres.Backend, id string) {
	holder, state := "holder of "+id, "state of "+id
	call := func(err error) bool {
		t.Calls++
		if err != nil {
			t.Errors = append(t.Errors, err.Error())
		}
		return err == nil
	}
	expect := func(right bool, what string, got any) {
		if !right {
			t.Wrong = append(t.Wrong, fmt.Sprintf("%s of %s: %v", what, id, got))
		}
	}

	rec, err := b.Acquire(ctx, id, holder, time.Minute)
	if !call(err) {
		return
	}
	expect(rec.FencingToken > 0 && time.Until(rec.ExpiresAt) > 0, "Acquire", rec)
	stored := call(b.Checkpoint(ctx, rec, []byte(state), time.Minute))
	cp, err := b.ReadCheckpoint(ctx, rec)
	if call(err) && stored {
		expect(string(cp.State) == state && cp.PrevExit == backend.ExitNone && cp.PrevHolderID == "", "ReadCheckpoint", cp)
	}
	_, err = b.Acquire(ctx, id, "rival", time.Minute)
	var held *backend.HeldError
	if errors.As(err, &held) {
		err = nil
		expect(held.HolderID == holder && held.Remaining > 0, "Acquire by a rival", *held)
	} else {
		expect(err != nil, "Acquire by a rival", "it took the lease")
	}
	call(err)
	call(b.Renew(ctx, rec, time.Minute))
	released := call(b.Release(ctx, rec, backend.ExitFinished))
	err = b.Renew(ctx, rec, time.Minute)
	if errors.Is(err, backend.ErrLeaseExpired) {
		expect(released || t.failed(), "Renew after Release", err)
		err = nil
	} else {
		expect(err != nil || !released, "Renew after Release", "it succeeded")
	}
	call(err)
	err = nil
	var listed []backend.LeaseInfo
	for info, listErr := range b.List(ctx, backend.ListOptions{WorkIDPrefix: id, HolderID: holder}) {
		if err = listErr; err == nil {
			listed = append(listed, info)
		}
	}
	if call(err) && !t.failed() {
		expect(len(listed) == 1 && listed[0].FencingToken == rec.FencingToken && listed[0].Exit == backend.ExitFinished, "List", listed)
	}
	call(b.Check(ctx))
}

// failed reports whether a call has failed, so that its outcome is not known.
func (t *tally) failed() bool { return len(t.Errors) > 0 }
