package ours

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/pacing"
)

// Grown is an operation on any row of a table of so many, to see whether its cost
// depends on their number.
type Grown struct {
	Name string
	held bool
	do   func(ctx context.Context, b *backed) error
}

// GrownOperations are those of a holder, and a failed Acquire.
var GrownOperations = []Grown{
	{"Renew", true, func(ctx context.Context, b *backed) error { return b.renew(ctx) }},
	{"Checkpoint", true, func(ctx context.Context, b *backed) error { return b.checkpoint(ctx) }},
	{"ReadCheckpoint", true, func(ctx context.Context, b *backed) error { return b.read(ctx) }},
	{"Acquire and Release", false, func(ctx context.Context, b *backed) error {
		if err := b.acquire(ctx, b.record.WorkID); err != nil {
			return err
		}
		return b.release(ctx)
	}},
	{"a failed Acquire", true, func(ctx context.Context, b *backed) error { return refused(b.acquire(ctx, b.record.WorkID)) }},
}

// On is the operation on a table of so many rows. Clients keep to rows of their
// own.
func (g Grown) On(s *Store, count int) measure.Work {
	open := func(ctx context.Context, clients int) (measure.Session, error) {
		db, err := LibPQ.open(ctx, s.dsn, clients)
		if err != nil {
			return measure.Session{}, err
		}
		do := make([]func(ctx context.Context) error, clients)
		for n := range do {
			b := &backed{name: holder}
			if b.Backend, err = postgres.New(db); err != nil {
				db.Close()
				return measure.Session{}, err
			}
			do[n] = func(ctx context.Context) error {
				row := n + clients*rand.IntN(count/clients)
				b.record = backend.LeaseRecord{WorkID: strconv.Itoa(row), HolderID: holder, FencingToken: uint64(row) + 1}
				return g.do(ctx, b)
			}
		}
		once := func(ctx context.Context, n int) error { return do[n](ctx) }
		return measure.Session{Do: once, Close: db.Close}, nil
	}
	return measure.Loop{Ready: s.laid(rows{count: count, held: g.held}), Open: open}
}

// Sizes are the bytes of the table and of each of its indexes, by name.
type Sizes map[string]float64

// Grow holds leases for length, renewed as ever, and returns the sizes after the
// first minute and at the end. A lease that is lost on the way is an error.
func Grow(ctx context.Context, s *Store, leases int, length time.Duration) (minute, end Sizes, err error) {
	if err := s.lay(ctx, rows{count: leases}); err != nil {
		return nil, nil, err
	}
	h, err := newHoard(ctx, s, true)
	if err != nil {
		return nil, nil, err
	}
	defer h.db.Close()
	ctx, release := context.WithCancel(ctx)
	defer release()
	if err := h.take(ctx, leases); err != nil {
		return nil, nil, err
	}
	defer h.stop()
	if err := pacing.Sleep(ctx, time.Minute); err != nil {
		return nil, nil, err
	}
	if minute, err = sizes(ctx, h.db); err != nil {
		return nil, nil, err
	}
	if err := pacing.Sleep(ctx, length-time.Minute); err != nil {
		return nil, nil, err
	}
	if end, err = sizes(ctx, h.db); err != nil {
		return nil, nil, err
	}
	if want := float64(leases) * (length.Seconds()/HeldTTL.Seconds()*2 - 2); float64(h.renewed.Load()) < want {
		return nil, nil, fmt.Errorf("%d renewals, want %.0f: %w", h.renewed.Load(), want, h.failed.err())
	}
	return minute, end, nil
}

func sizes(ctx context.Context, db *sql.DB) (Sizes, error) {
	rows, err := db.QueryContext(ctx, `
		SELECT relname, pg_relation_size(oid) FROM pg_class
		WHERE oid = 'worklease_leases'::regclass
		   OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'worklease_leases'::regclass)`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := Sizes{}
	for rows.Next() {
		var (
			name string
			size float64
		)
		if err := rows.Scan(&name, &size); err != nil {
			return nil, err
		}
		found[name] = size
	}
	return found, rows.Err()
}
