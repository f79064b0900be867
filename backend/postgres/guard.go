package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/aetomala/worklease/backend"
)

// Fence names a lease and the token that it is held under. A worklease.Token is
// one.
type Fence interface {
	WorkID() string
	HolderID() string
	FencingToken() uint64
}

// Guard makes tx, one of the caller's own on the backend's database, safe against a
// takeover: from its success to the end of tx nobody else gets the lease of fence.
// It is for writes that need no checkpoint, and moves no expiry. It costs one
// statement; call it before the writes, or at least before the commit.
//
// It waits where another transaction has the lease's row, and so do the holder's
// own renewals until tx has ended: keep it shorter than half the TTL. Guarded
// transactions of one lease run one after another. Where tx is nil, it is the
// transaction that ctx has from [WithTx] or [WithConn]. On a connection of WithConn
// that is outside of a BEGIN it succeeds and guards nothing once it has returned.
//
// Errors: [backend.ErrFenced] when a successor has the lease or its row is gone,
// [backend.ErrLeaseExpired] when it has lapsed or was left. Roll tx back then, and
// after any other error. A tx that has ended gives [sql.ErrTxDone].
func (b *Backend) Guard(ctx context.Context, tx *sql.Tx, fence Fence) error {
	if fence == nil {
		return errors.New("postgres: Guard: fence is nil")
	}
	record := backend.LeaseRecord{WorkID: fence.WorkID(), HolderID: fence.HolderID(), FencingToken: fence.FencingToken()}
	if err := b.guard(ctx, tx, record); err != nil {
		return fmt.Errorf("postgres: Guard: workID=%q holderID=%q: %w", record.WorkID, record.HolderID, err)
	}
	return nil
}

func (b *Backend) guard(ctx context.Context, tx *sql.Tx, record backend.LeaseRecord) error {
	in := transactionOf(ctx)
	if tx != nil {
		in = &transaction{tx: tx}
	}
	if in == nil {
		return errors.New("tx is nil, and the context has no transaction")
	}
	ctx, err := join(ctx, in)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if record.FencingToken > math.MaxInt64 {
		return backend.ErrFenced
	}

	var live sql.NullBool
	_, err = b.row(ctx, guard, []any{record.WorkID, record.HolderID, int64(record.FencingToken)}, &live)
	switch {
	case err != nil:
		return err
	case !live.Valid:
		return b.refused(ctx, record, standing.over)
	case !live.Bool:
		return backend.ErrLeaseExpired
	default:
		return nil
	}
}
