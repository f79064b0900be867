package ours

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
)

// state is what a checkpoint stores, 1 KB that does not compress to nothing.
var state = func() []byte {
	b := make([]byte, 1024)
	for i := range b {
		b[i] = byte(i * i >> 3)
	}
	return b
}()

// client takes one lease at a time and works on it.
type client interface {
	acquire(ctx context.Context, workID string) error // matches worklease.ErrLeaseHeld where it is held
	read(ctx context.Context) error
	checkpoint(ctx context.Context) error
	renew(ctx context.Context) error
	release(ctx context.Context) error
}

// Level makes clients. Each is a holder of its own, as a process would be.
type Level struct {
	Name string
	open func(ctx context.Context, s *Store, db *sql.DB, name string) (client, error)
}

// leased works through a worklease.Lease.
type leased struct {
	worklease.Lease
	token worklease.Token

	// unbounded hides the caller's cancellation, without which worklease makes the
	// call on the caller's goroutine.
	unbounded bool
}

func openLease(unbounded bool) func(context.Context, *Store, *sql.DB, string) (client, error) {
	return func(_ context.Context, _ *Store, db *sql.DB, name string) (client, error) {
		b, err := postgres.New(db)
		if err != nil {
			return nil, err
		}
		l, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: name})
		return &leased{Lease: l, unbounded: unbounded}, err
	}
}

// The levels of worklease.
var (
	AsLease     = Level{"Lease", openLease(false)}
	AsUnbounded = Level{"Lease, no bound", openLease(true)}
	AsBackend   = Level{"Backend", openBackend}
	AsStatement = Level{"bare", openStatements}
	AsUpsert    = Level{"upsert", openUpsert}
)

func (l *leased) acquire(ctx context.Context, workID string) (err error) {
	l.token, err = l.Acquire(ctx, workID)
	return err
}

func (l *leased) read(ctx context.Context) error {
	_, err := l.ReadCheckpoint(ctx, l.token)
	return err
}

func (l *leased) checkpoint(ctx context.Context) error { return l.Checkpoint(ctx, l.token, state) }

func (l *leased) renew(ctx context.Context) error {
	if l.unbounded {
		ctx = context.WithoutCancel(ctx)
	}
	return l.Renew(ctx, l.token)
}

func (l *leased) release(ctx context.Context) error {
	return l.Release(ctx, l.token, worklease.ExitFinished)
}

// backed works through a backend.Backend.
type backed struct {
	backend.Backend
	name   string
	record backend.LeaseRecord
}

func openBackend(_ context.Context, _ *Store, db *sql.DB, name string) (client, error) {
	b, err := postgres.New(db)
	return &backed{Backend: b, name: name}, err
}

func (b *backed) acquire(ctx context.Context, workID string) (err error) {
	b.record, err = b.Acquire(ctx, workID, b.name, ttl)
	return err
}

func (b *backed) read(ctx context.Context) error {
	_, err := b.ReadCheckpoint(ctx, b.record)
	return err
}

func (b *backed) checkpoint(ctx context.Context) error {
	return b.Checkpoint(ctx, b.record, state, ttl)
}

func (b *backed) renew(ctx context.Context) error { return b.Renew(ctx, b.record, ttl) }

func (b *backed) release(ctx context.Context) error {
	return b.Release(ctx, b.record, backend.ExitFinished)
}

// statements are worklease's, prepared, and nothing around them.
type statements struct {
	prepared map[string]*sql.Stmt
	name     string
	workID   string
	token    int64
}

func openStatements(ctx context.Context, s *Store, db *sql.DB, name string) (client, error) {
	c := &statements{prepared: make(map[string]*sql.Stmt), name: name}
	for _, query := range []string{"acquire", "read", "checkpoint", "renew", "release"} {
		stmt, err := db.PrepareContext(ctx, s.queries[query])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		c.prepared[query] = stmt
	}
	return c, nil
}

func (c *statements) acquire(ctx context.Context, workID string) error {
	var (
		answered                  string
		token, expires, remaining sql.NullInt64
		by                        sql.NullString
	)
	err := c.prepared["acquire"].QueryRowContext(ctx, "acquire", workID, c.name, ttl.Microseconds()).
		Scan(&answered, &token, &expires, &by, &remaining)
	if err == nil && !token.Valid {
		return worklease.ErrLeaseHeld
	}
	c.workID, c.token = workID, token.Int64
	return err
}

func (c *statements) read(ctx context.Context) error {
	var (
		answered   string
		found      bool
		checkpoint []byte
		exit, by   sql.NullString
	)
	return c.prepared["read"].QueryRowContext(ctx, "read", c.workID, c.token).Scan(&answered, &found, &checkpoint, &exit, &by)
}

func (c *statements) checkpoint(ctx context.Context) error {
	return c.write(ctx, "checkpoint", ttl.Microseconds(), state, 0)
}

func (c *statements) renew(ctx context.Context) error {
	return c.write(ctx, "renew", ttl.Microseconds())
}

func (c *statements) release(ctx context.Context) error {
	return c.write(ctx, "release", "finished")
}

func (c *statements) write(ctx context.Context, query string, args ...any) error {
	var answered string
	args = append([]any{query, c.workID, c.name, c.token}, args...)
	return c.prepared[query].QueryRowContext(ctx, args...).Scan(&answered)
}

// upsert acquires as one would without a thought for those who wait.
type upsert struct {
	client // has nothing to do: it never gets the lease
	stmt   *sql.Stmt
	name   string
}

// UpsertSQL is what a held lease refuses with a lock, a write to the log and a
// flush.
const UpsertSQL = `INSERT INTO worklease_leases AS l (work_id, holder_id, expires_at)
VALUES ($1, $2, statement_timestamp() + $3::bigint * interval '1 microsecond')
ON CONFLICT (work_id) DO UPDATE SET
    holder_id     = excluded.holder_id,
    fencing_token = excluded.fencing_token,
    expires_at    = excluded.expires_at
WHERE l.expires_at <= statement_timestamp()
RETURNING fencing_token`

func openUpsert(ctx context.Context, _ *Store, db *sql.DB, name string) (client, error) {
	stmt, err := db.PrepareContext(ctx, UpsertSQL)
	return &upsert{stmt: stmt, name: name}, err
}

func (u *upsert) acquire(ctx context.Context, workID string) error {
	var token int64
	err := u.stmt.QueryRowContext(ctx, workID, u.name, ttl.Microseconds()).Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return worklease.ErrLeaseHeld
	}
	return err
}
