package postgres

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
)

// transaction is one of the caller's own.
type transaction struct {
	tx   *sql.Tx
	conn *sql.Conn // where there is no tx
}

type transactionKey struct{}

// WithTx returns a context under which Checkpoint of a [Backend] runs its
// statement inside tx, so that the caller's rows and the checkpoint are one
// commit:
//
//	err := lease.Checkpoint(postgres.WithTx(ctx, tx), token, state)
//
// tx is of the database that has the backend's table, through whatever *sql.DB.
// Renew and ReadCheckpoint ignore it; Acquire, Release, Forget, Sweep and ForceRelease
// refuse a context that has one, and do nothing. A Lease on another backend, such as
// memory in a unit test, ignores it altogether: its checkpoint stays when tx is rolled
// back.
//
// The caller commits and rolls back, and owns the wait: Checkpoint returns when
// the driver does. A rollback, of a savepoint too, leaves state and expiry as they
// were. After an error roll back. Whoever commits in spite of
// [backend.ErrFenced] writes rows that nothing fences. A tx that has ended gives
// [sql.ErrTxDone].
//
// The expiry counts from the call of Checkpoint, not from the beginning of tx. From
// that call to the end of tx the lease's row is locked. That keeps successors out, and
// the holder's own other calls waiting, renewals too: make none from inside, and keep
// it shorter than half the TTL.
//
// A Commit without an answer may still happen. Nothing that was read before says
// what is stored then; a Renew waits until it is settled, and a ReadCheckpoint
// after that tells.
func WithTx(ctx context.Context, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, transactionKey{}, &transaction{tx: tx})
}

// WithConn is [WithTx] for a transaction that the caller has begun on conn with a
// BEGIN of its own. Outside of one nothing tells: the checkpoint is committed at once,
// and a [Backend.Guard] guards nothing after it has returned.
func WithConn(ctx context.Context, conn *sql.Conn) context.Context {
	return context.WithValue(ctx, transactionKey{}, &transaction{conn: conn})
}

func transactionOf(ctx context.Context) *transaction {
	t, _ := ctx.Value(transactionKey{}).(*transaction)
	return t
}

// Tentative implements [backend.Transactor].
func (b *Backend) Tentative(ctx context.Context) bool { return transactionOf(ctx) != nil }

// alone refuses a context with a transaction for a call that never runs in one.
func alone(ctx context.Context) error {
	if transactionOf(ctx) != nil {
		return errors.New("it cannot be part of the caller's transaction: call it without postgres.WithTx and WithConn")
	}
	return nil
}

type joinedKey struct{}

// join has the statements under the context that it returns run inside t, where
// there is one.
func join(ctx context.Context, t *transaction) (context.Context, error) {
	switch {
	case t == nil:
		return ctx, nil
	case t.tx == nil && t.conn == nil:
		return nil, errors.New("the transaction given to postgres.WithTx or WithConn is nil")
	}
	return context.WithValue(ctx, joinedKey{}, t), nil
}

func joined(ctx context.Context) *transaction {
	t, _ := ctx.Value(joinedKey{}).(*transaction)
	return t
}

// inside runs a statement in the caller's transaction: prepared, where it is so
// already, and else as text. To prepare it takes another connection, and the caller
// may hold the only one; so it is left to the next call outside.
func (b *Backend) inside(ctx context.Context, t *transaction, name string, args []any, read func(*sql.Rows) error) error {
	var rows *sql.Rows
	var err error
	s := b.statements[name]
	stmt := s.prepared.Load()
	switch {
	case t.tx != nil && stmt != nil && b.owns(t.tx):
		rows, err = t.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...) //nolint:sqlclosecheck // it ends with tx
	case t.tx != nil:
		if !b.pooler && b.owns(t.tx) {
			s.wanted.Store(true)
		}
		rows, err = t.tx.QueryContext(ctx, s.text, append(b.modeOf(t), args...)...)
	default:
		rows, err = t.conn.QueryContext(ctx, s.text, append(b.modeOf(t), args...)...)
	}
	if err != nil {
		return err
	}
	return read(rows)
}

// owns reports whether tx was begun on the backend's own db and not on another one
// of the same database. database/sql does not tell.
func (b *Backend) owns(tx *sql.Tx) bool {
	db := reflect.ValueOf(tx).Elem().FieldByName("db")
	return db.Kind() == reflect.Pointer && db.Pointer() == reflect.ValueOf(b.db).Pointer()
}

// modeOf is [Backend.unprepared] for a transaction, and takes no connection. Where
// the mode cannot be known yet, pgx goes by what the caller has set for statements of
// his own.
func (b *Backend) modeOf(t *transaction) (mode []any) {
	switch known := b.mode.Load(); {
	case !b.pooler:
	case t.tx == nil:
		_ = t.conn.Raw(func(driverConn any) error {
			mode = execMode(driverConn)
			return nil
		})
	case known != nil && b.owns(t.tx):
		mode = slices.Clone(*known)
	}
	return mode
}
