package ours

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/bench/measure"
)

// Operation is what clients do again and again.
type Operation struct {
	rows   rows
	before func(ctx context.Context, c client, n int) error // once for each client; may be nil
	do     func(ctx context.Context, c client, n int) error
	script []string // the statements that pgbench runs in its place
}

// maxClients is how many rows the operations on a client's own lease need.
const maxClients = 64

// The operations of a holder.
var (
	Renew = Operation{
		rows:   rows{count: maxClients},
		before: acquireOwn,
		do:     func(ctx context.Context, c client, _ int) error { return c.renew(ctx) },
		script: []string{"renew"},
	}
	Checkpoint = Operation{
		rows:   rows{count: maxClients},
		before: acquireOwn,
		do:     func(ctx context.Context, c client, _ int) error { return c.checkpoint(ctx) },
		script: []string{"checkpoint"},
	}
	AcquireRelease = Operation{
		rows: rows{count: maxClients},
		do: func(ctx context.Context, c client, n int) error {
			if err := acquireOwn(ctx, c, n); err != nil {
				return err
			}
			return c.release(ctx)
		},
		script: []string{"acquire", "release"},
	}
)

// Refused is a failed Acquire of one of so many leases, drawn anew each time.
func Refused(leases int) Operation {
	return Operation{
		rows: rows{count: leases, held: true},
		do: func(ctx context.Context, c client, _ int) error {
			return refused(c.acquire(ctx, strconv.Itoa(rand.IntN(leases))))
		},
		script: []string{"acquire"},
	}
}

// refused expects an Acquire to have been refused.
func refused(err error) error {
	switch {
	case err == nil:
		return errors.New("acquired a lease that is held")
	case errors.Is(err, worklease.ErrLeaseHeld):
		return nil
	default:
		return err
	}
}

// Run is a whole run's statements: acquire, read, so many checkpoints, release.
func Run(checkpoints int) Operation {
	return Operation{
		rows: rows{count: maxClients},
		do: func(ctx context.Context, c client, n int) error {
			if err := acquireOwn(ctx, c, n); err != nil {
				return err
			}
			if err := c.read(ctx); err != nil {
				return err
			}
			for range checkpoints {
				if err := c.checkpoint(ctx); err != nil {
					return err
				}
			}
			return c.release(ctx)
		},
	}
}

func acquireOwn(ctx context.Context, c client, n int) error {
	return c.acquire(ctx, strconv.Itoa(n))
}

// At is the operation at one level, through one driver.
func (o Operation) At(s *Store, level Level, driver Driver) measure.Work {
	open := func(ctx context.Context, clients int) (measure.Session, error) {
		db, err := driver.open(ctx, s.dsn, clients)
		if err != nil {
			return measure.Session{}, err
		}
		holders := make([]client, clients)
		for n := range holders {
			holders[n], err = level.open(ctx, s, db, holder+"-"+strconv.Itoa(n))
			if err == nil && o.before != nil {
				err = o.before(ctx, holders[n], n)
			}
			if err != nil {
				db.Close()
				return measure.Session{}, err
			}
		}
		do := func(ctx context.Context, n int) error { return o.do(ctx, holders[n], n) }
		return measure.Session{Do: do, Close: db.Close}, nil
	}
	return measure.Loop{Ready: s.laid(o.rows), Open: open}
}
