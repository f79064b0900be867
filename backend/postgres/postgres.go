// Package postgres keeps leases in a table of a PostgreSQL database.
//
// It works through database/sql with any PostgreSQL driver and imports none; it
// is tested with github.com/lib/pq and github.com/jackc/pgx/v5/stdlib. The
// table, its sequence and its index come from [Schema]; applying it is up to the
// user of this package.
//
// # Guarantees
//
// Every operation of a holder is one statement in one round trip, guarded in its
// WHERE clause; a second statement only tells why nothing was written. All times
// are the server's: the clients' clocks do not matter. An Acquire that finds the
// lease held writes nothing, and as a rule draws no token from the sequence.
//
// # Not guaranteed
//
// The backend needs the isolation level READ COMMITTED, PostgreSQL's default.
// Under REPEATABLE READ and SERIALIZABLE a contended call may fail with the
// serialization error 40001 instead of its verdict (PostgreSQL, "Transaction
// Isolation"). Durability is the server's: what synchronous_commit = off or a
// failover to a lagging replica loses is lost here too.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease/backend"
)

// Backend is a [backend.Backend] on PostgreSQL. It also is a [backend.Restorer], a
// [backend.BatchRenewer], a [backend.Sequencer], a [backend.Classifier], a
// [backend.Lister], a [backend.ForceReleaser], a [backend.Transactor], and, with
// [WithNotifications], a [backend.Notifier].
type Backend struct {
	db         *sql.DB
	listener   *Listener // nil: without notifications
	statements map[string]*statement
	pooler     bool
	mode       atomic.Pointer[[]any] // see unprepared; nil until it is known
}

type options struct {
	schema   string
	pooler   bool
	listener *Listener
}

// Option changes what New makes.
type Option func(*options)

// WithSchema names the schema that holds the table and the sequence. Every name
// is then qualified with it, whatever the search_path says. Empty: none, and the
// search_path decides.
func WithSchema(name string) Option {
	return func(o *options) { o.schema = name }
}

// WithTransactionPooler is for a pooler in transaction mode between the
// application and the server, such as pgbouncer before 1.21, that does not track
// prepared statements. Every call then runs unprepared in a transaction of its
// own, which costs more round trips and is right whatever the settings of lib/pq and
// pgx.
func WithTransactionPooler() Option {
	return func(o *options) { o.pooler = true }
}

// New returns a Backend on db. It does no I/O, and never closes db. One for each
// db is enough: the statements that it prepares are kept for as long as db is. A
// nil db and a schema name that PostgreSQL would not take are errors.
func New(db *sql.DB, opts ...Option) (*Backend, error) {
	if db == nil {
		return nil, errors.New("postgres: New: db is nil")
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	b := &Backend{db: db, pooler: o.pooler, listener: o.listener}
	t, err := newTexts(o.schema, o.listener != nil)
	if err == nil {
		b.statements, err = t.statements()
	}
	if err == nil && o.listener != nil {
		err = o.listener.attach(o.schema, t)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: New: %w", err)
	}
	return b, nil
}

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	if err := alone(ctx); err != nil {
		return backend.LeaseRecord{}, err
	}
	if err := ctx.Err(); err != nil {
		return backend.LeaseRecord{}, err
	}
	var answer struct {
		token, expires, remaining sql.NullInt64
		holder                    sql.NullString
	}
	resent, err := b.row(ctx, acquire, []any{workID, holderID, ttl.Microseconds()},
		&answer.token, &answer.expires, &answer.holder, &answer.remaining)
	switch {
	case err != nil:
		return backend.LeaseRecord{}, err
	case answer.token.Valid:
		return backend.LeaseRecord{
			WorkID: workID, HolderID: holderID,
			FencingToken: uint64(answer.token.Int64), ExpiresAt: time.UnixMicro(answer.expires.Int64),
		}, nil
	case resent:
		return backend.LeaseRecord{}, errResent
	case answer.holder.Valid:
		return backend.LeaseRecord{}, b.held(workID, answer.holder.String, time.Duration(answer.remaining.Int64)*time.Microsecond) //nolint:contextcheck // the listener outlives the call
	}
	// Somebody else took the lapsed row while this attempt waited for it.
	s, err := b.why(ctx, workID)
	if err != nil {
		return backend.LeaseRecord{}, err
	}
	return backend.LeaseRecord{}, b.held(workID, s.holder, s.remaining) //nolint:contextcheck // the listener outlives the call
}

func (b *Backend) held(workID, holder string, remaining time.Duration) error {
	if b.listener != nil {
		b.listener.want(workID, b.probe)
	}
	return &backend.HeldError{HolderID: holder, Remaining: max(remaining, 0)}
}

// maxState bounds a checkpoint. Drivers send bytes as hex, so that a state of
// half the 1 GiB which a PostgreSQL message may have fails as a bare connection
// reset; this stays well below.
const maxState = 128 << 20

// Checkpoint implements [backend.Backend]. A state over 128 MiB is refused before
// anything is sent. It runs inside the caller's transaction where ctx has one, see
// [WithTx].
func (b *Backend) Checkpoint(ctx context.Context, record backend.LeaseRecord, state []byte, ttl time.Duration) error {
	if len(state) > maxState {
		return fmt.Errorf("state of %d bytes is larger than %d", len(state), maxState)
	}
	if len(state) == 0 {
		state = nil
	}
	ctx, err := join(ctx, transactionOf(ctx))
	if err != nil {
		return err
	}
	_, err = b.write(ctx, checkpoint, record, ttl.Microseconds(), state, backend.Generation(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return b.refused(ctx, record, func(s standing) bool { return s.exit != "" })
	}
	return err
}

// Generations implements [backend.Sequencer]: as many as there are microseconds in
// a millisecond, see queries/checkpoint.sql.
func (b *Backend) Generations() int { return 1000 }

// Renew implements [backend.Backend].
func (b *Backend) Renew(ctx context.Context, record backend.LeaseRecord, ttl time.Duration) error {
	_, err := b.write(ctx, renew, record, ttl.Microseconds())
	if errors.Is(err, sql.ErrNoRows) {
		return b.refused(ctx, record, standing.over)
	}
	return err
}

// Release implements [backend.Backend].
func (b *Backend) Release(ctx context.Context, record backend.LeaseRecord, mode backend.ExitMode) error {
	if !mode.Declarable() {
		return backend.ErrInvalidExitMode
	}
	if err := alone(ctx); err != nil {
		return err
	}
	resent, err := b.write(ctx, release, record, mode.String())
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var recorded bool
	err = b.refused(ctx, record, func(s standing) bool {
		recorded = resent && s.exit == mode.String()
		return s.over()
	})
	if recorded {
		return nil
	}
	return err
}

// ReadCheckpoint implements [backend.Backend].
func (b *Backend) ReadCheckpoint(ctx context.Context, record backend.LeaseRecord) (backend.Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return backend.Checkpoint{}, err
	}
	if record.FencingToken > math.MaxInt64 {
		return backend.Checkpoint{}, backend.ErrFenced
	}
	var (
		found        bool
		state        []byte
		exit, holder sql.NullString
	)
	_, err := b.row(ctx, read, []any{record.WorkID, int64(record.FencingToken)}, &found, &state, &exit, &holder)
	switch {
	case err != nil:
		return backend.Checkpoint{}, err
	case !found:
		return backend.Checkpoint{}, backend.ErrFenced
	}
	if len(state) == 0 {
		state = nil
	}
	return backend.Checkpoint{State: state, PrevExit: exitMode(exit.String), PrevHolderID: holder.String}, nil
}

// Forget implements [backend.Backend].
func (b *Backend) Forget(ctx context.Context, record backend.LeaseRecord) error {
	if err := alone(ctx); err != nil {
		return err
	}
	resent, err := b.write(ctx, forget, record)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	s, err := b.why(ctx, record.WorkID)
	switch {
	case err != nil:
		return err
	case !s.found && resent:
		return nil
	case s.of(record):
		return b.explain(ctx, errUnexplained)
	default:
		return backend.ErrFenced
	}
}

// Restore implements [backend.Restorer].
func (b *Backend) Restore(ctx context.Context, record backend.LeaseRecord) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if record.FencingToken > math.MaxInt64 {
		return backend.ErrFenced
	}
	var done bool
	resent, err := b.row(ctx, restore, []any{record.WorkID, int64(record.FencingToken)}, &done)
	if err == nil && !done && !resent {
		return backend.ErrFenced
	}
	return err
}

// sweepBatch is how many rows one statement of Sweep deletes: few enough for a
// statement timeout of a second.
const sweepBatch = 1000

// Sweep implements [backend.Backend]. It deletes in batches, each committed by
// itself.
func (b *Backend) Sweep(ctx context.Context, opts backend.SweepOptions) (int64, error) {
	if err := alone(ctx); err != nil {
		return 0, err
	}
	var total int64
	// Before every possible row: the least timestamp is in 4713 BC.
	end := int64(-2e17)
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		var n, next int64
		_, err := b.row(ctx, sweep, []any{opts.Retention.Microseconds(), opts.IncludeExpired, sweepBatch, end}, &n, &next)
		if err != nil {
			return total, err
		}
		total += n
		if n < sweepBatch {
			return total, nil
		}
		end = next
	}
}

// write runs a statement that is guarded by the whole of record.
func (b *Backend) write(ctx context.Context, name string, record backend.LeaseRecord, args ...any) (resent bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if record.FencingToken > math.MaxInt64 {
		return false, backend.ErrFenced
	}
	args = append([]any{record.WorkID, record.HolderID, int64(record.FencingToken)}, args...)
	return b.row(ctx, name, args)
}

// exitMode reads a stored exit. Text that it does not know counts as expired.
func exitMode(text string) backend.ExitMode {
	for m := range backend.ExitExpired {
		if m.String() == text {
			return m
		}
	}
	return backend.ExitExpired
}
