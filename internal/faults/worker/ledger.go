//go:build linux

package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/faults/history"
	"github.com/aetomala/worklease/worker"
)

// Ledger names a work ID whose checkpoints are all part of transactions: its state
// begins with a cursor, and the table ledger has each entry up to that cursor once.
func Ledger(n int) string { return fmt.Sprintf("l%d", n) }

// Errors of a batch that was not committed, or may have been.
var (
	errUndone    = errors.New("not committed")
	errUndecided = errors.New("the commit has no answer")
	errLapsed    = errors.New("the lease has lapsed")
)

// ledger moves entries into the ledger under a lease, in one of the ways that a
// caller may: under a Runner, by hand, and as a zombie that does not renew.
func (t *tenure) ledger(ctx context.Context, id string) error {
	way := t.rng.IntN(10)
	if way < 5 {
		r, err := worker.NewRunner(worker.RunnerConfig{
			Lease:          t.lease,
			CleanupTimeout: t.TTL,
			RenewalOptions: t.renewal(),
			WorkFn: func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
				return nil, t.batches(ctx, token, cursorOf(prior))
			},
		})
		if err != nil {
			return err
		}
		return r.Run(ctx, id)
	}

	token, err := t.acquire(ctx, id)
	if err != nil {
		return err
	}
	at, err := t.cursor(ctx, token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if way < 8 {
		renewCtx, stop := t.lease.StartRenewal(ctx, token, t.renewal()...)
		defer stop()
		ctx = renewCtx
	} else {
		pause(ctx, between(t.rng, 0, t.TTL*3/2))
	}
	if err := t.batches(ctx, token, at); err != nil || t.rng.IntN(8) == 0 {
		return err // as if crashed: the lease lapses
	}
	return t.leave(ctx, token)
}

// batches moves some batches from the entry after at.
func (t *tenure) batches(ctx context.Context, token worklease.Token, at int64) error {
	for range 1 + t.rng.IntN(12) {
		t.lease.believe(ctx, token)
		next, err := t.batch(ctx, token, at)
		switch {
		case err == nil:
			at = next
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, worklease.ErrFenced), errors.Is(err, worklease.ErrLeaseExpired):
			return err
		case errors.Is(err, errUndone):
			// The cursor is where it was.
		case t.rng.IntN(2) == 0:
			return err // the next holder reads what stands
		default:
			// Renew waits until the old transaction has ended, and only then a read tells.
			err := t.call(ctx, func(ctx context.Context) error { return t.lease.Renew(ctx, token) })
			if err != nil {
				return err
			}
			if at, err = t.cursor(ctx, token); err != nil {
				return err
			}
		}
		pause(ctx, between(t.rng, 0, 20*time.Millisecond))
	}
	return nil
}

// batch moves one batch, and writes it down as a checkpoint.
func (t *tenure) batch(ctx context.Context, token worklease.Token, at int64) (next int64, err error) {
	next = at + 1 + t.rng.Int64N(5)
	state := fmt.Appendf(nil, "%d %s", next, t.state(token))
	e := under(token, history.Checkpoint)
	e.State = string(state)
	err = t.lease.note(e, func(*history.Event) error {
		within, cancel := context.WithTimeout(ctx, 2*t.TTL)
		defer cancel()
		tx, err := t.db.BeginTx(within, nil)
		if err != nil {
			return fmt.Errorf("%w: %w", errUndone, err)
		}
		err = t.fill(within, tx, token, at, next, state)
		switch {
		case errors.Is(err, worklease.ErrFenced), errors.Is(err, worklease.ErrLeaseExpired):
			_ = tx.Rollback() // a connection that is lost rolls back too
			return err
		case err != nil:
			_ = tx.Rollback()
			return fmt.Errorf("%w: %w", errUndone, err)
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("%w: %w", errUndecided, err)
		}
		return nil
	})
	return next, err
}

// fill does what a transaction does before its commit.
func (t *tenure) fill(ctx context.Context, tx *sql.Tx, token worklease.Token, at, next int64, state []byte) error {
	if t.rng.IntN(2) == 0 {
		switch err := t.backend.Guard(ctx, tx, token); {
		case errors.Is(err, worklease.ErrLeaseExpired):
			return errLapsed // which a Checkpoint would not say
		case err != nil:
			return err
		}
	}
	checkpoint := func(state []byte) error {
		return t.lease.Lease.Checkpoint(postgres.WithTx(ctx, tx), token, state)
	}
	insert := func(entry int64) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO ledger (work_id, entry, token) VALUES ($1, $2, $3)`,
			token.WorkID(), entry, int64(token.FencingToken()))
		return err
	}
	if t.rng.IntN(8) == 0 { // what a savepoint takes back
		if _, err := tx.ExecContext(ctx, `SAVEPOINT detour`); err != nil {
			return err
		}
		if err := errors.Join(insert(at+100), checkpoint(fmt.Appendf(nil, "%d detour", at+100))); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `ROLLBACK TO detour`); err != nil {
			return err
		}
	}
	for entry := at + 1; entry <= next; entry++ {
		if err := insert(entry); err != nil {
			return err
		}
	}
	if err := checkpoint(state); err != nil {
		return err
	}
	switch t.rng.IntN(30) {
	case 0:
		pause(ctx, between(t.rng, 0, t.TTL*3/2)) // longer than the lease, at times
	case 1, 2:
		return errFailed
	default:
		pause(ctx, between(t.rng, 0, 5*time.Millisecond))
	}
	return nil
}

// cursor reads the entry that was moved last.
func (t *tenure) cursor(ctx context.Context, token worklease.Token) (at int64, err error) {
	err = t.call(ctx, func(ctx context.Context) error {
		prior, err := t.lease.ReadCheckpoint(ctx, token)
		at = cursorOf(prior)
		return err
	})
	return at, err
}

func cursorOf(prior worklease.Checkpoint) (at int64) {
	if len(prior.State) == 0 {
		return 0
	}
	if _, err := fmt.Sscan(string(prior.State), &at); err != nil {
		panic(fmt.Sprintf("worker: the state %q begins with no cursor", prior.State))
	}
	return at
}
