package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/bounded"
)

// List implements [backend.Lister], in the order of the primary key. Each step is one
// statement that reads a thousand rows, or fewer where states are asked for and reach
// 4 MiB together. What is selected or not makes no difference to that, so that a rare
// holder in a large table costs many statements, none of them long.
func (b *Backend) List(ctx context.Context, opts backend.ListOptions) iter.Seq2[backend.LeaseInfo, error] {
	return func(yield func(backend.LeaseInfo, error) bool) {
		if err := b.list(ctx, opts, yield); err != nil {
			yield(backend.LeaseInfo{}, fmt.Errorf("postgres: List: %w", err))
		}
	}
}

// list yields leases until there are no more, or yield wants none.
func (b *Backend) list(ctx context.Context, opts backend.ListOptions, yield func(backend.LeaseInfo, error) bool) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	for at := (cursor{}); ; {
		p, err := bounded.Call(ctx, func(ctx context.Context) (page, error) { return b.page(ctx, at, opts) })
		if err != nil {
			return err
		}
		for _, info := range p.leases {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(info, nil) {
				return nil
			}
		}
		if !p.end.after {
			return nil
		}
		at = p.end
	}
}

// cursor is where a page ended, so that the next begins after it. The zero cursor is
// before every work ID, also before an empty one that an earlier version took.
type cursor struct {
	workID string
	after  bool
}

// page is what one statement read.
type page struct {
	leases []backend.LeaseInfo
	end    cursor // zero when there was nothing to read
}

func (b *Backend) page(ctx context.Context, from cursor, opts backend.ListOptions) (p page, err error) {
	exit := sql.NullString{String: opts.Exit.String(), Valid: opts.Exit != backend.ExitNone}
	holder := sql.NullString{String: opts.HolderID, Valid: opts.HolderID != ""}
	args := []any{
		from.workID, from.after,
		opts.Live || !opts.Lapsed, opts.Lapsed || !opts.Live, holder, exit, opts.WorkIDPrefix, opts.State,
	}
	var (
		info                       backend.LeaseInfo
		workID                     sql.NullString
		wanted                     bool
		exitText, prevText         string
		token                      int64
		expires, acquired, updated int64
	)
	next := func() {
		p.end = cursor{workID.String, workID.Valid}
		if !wanted {
			return
		}
		info.WorkID = workID.String
		info.FencingToken = uint64(token)
		info.Exit, info.PrevExit = exitMode(exitText), exitMode(prevText)
		info.ExpiresAt, info.AcquiredAt, info.UpdatedAt = time.UnixMicro(expires), time.UnixMicro(acquired), time.UnixMicro(updated)
		if len(info.State) == 0 {
			info.State = nil
		}
		p.leases = append(p.leases, info)
	}
	_, err = b.rows(ctx, list, args, next,
		&workID, &wanted, &info.HolderID, &token, &info.Live, &exitText, &prevText, &info.PrevHolderID,
		&info.StateSize, &info.State, &expires, &acquired, &updated)
	return p, err
}
