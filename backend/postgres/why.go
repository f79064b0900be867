package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/aetomala/worklease/backend"
)

// standing is what a row says about a lease.
type standing struct {
	found     bool
	holder    string
	token     int64
	exit      string
	remaining time.Duration

	// fresh is false where it shows a transaction's snapshot, and the row may have
	// moved on since.
	fresh bool
}

// of reports whether the row is still record's.
func (s standing) of(record backend.LeaseRecord) bool {
	return s.found && s.holder == record.HolderID && uint64(s.token) == record.FencingToken
}

// predates reports whether the row was seen as it stood before record's
// acquisition. Tokens only rise, so a greater one is final in any snapshot.
func (s standing) predates(record backend.LeaseRecord) bool {
	return !s.fresh && (!s.found || uint64(s.token) < record.FencingToken)
}

// over reports whether the lease has lapsed or was left.
func (s standing) over() bool { return s.exit != "" || s.remaining <= 0 }

// errUnexplained is for a statement that wrote nothing although the row gives no
// reason: the reason has passed since, another statement was executed in its place,
// or a checkpoint of a later generation is stored. It is no verdict.
var errUnexplained = errors.New("nothing was written and the lease gives no reason: outcome unknown")

// errPredated is for a transaction that cannot see its lease. It is no verdict.
var errPredated = errors.New("nothing was written: the transaction's snapshot is older than the lease")

// errResent is for a refusal that may be the echo of the same call's first
// execution. It is no verdict.
var errResent = errors.New("refused after the connection broke and the statement was sent again: outcome unknown")

// why asks for the row, in a statement and a snapshot of its own: one that writes
// and looks at once would see the row as it was before it waited for its lock.
func (b *Backend) why(ctx context.Context, workID string) (standing, error) {
	var s standing
	var remaining int64
	_, err := b.row(ctx, why, []any{workID}, &s.found, &s.holder, &s.token, &s.exit, &remaining, &s.fresh)
	s.fresh = s.fresh || joined(ctx) == nil // a statement alone has a snapshot of its own
	if s.found {
		s.remaining = time.Duration(remaining) * time.Microsecond
	}
	return s, err
}

// refused turns the row behind a write that was refused into a verdict: fenced
// unless the row is still record's, expired where lapsed says so of it.
func (b *Backend) refused(ctx context.Context, record backend.LeaseRecord, lapsed func(standing) bool) error {
	s, err := b.why(ctx, record.WorkID)
	switch {
	case err != nil:
		return err
	case s.predates(record):
		return errPredated
	case !s.of(record):
		return backend.ErrFenced
	case lapsed(s):
		return backend.ErrLeaseExpired
	default:
		return b.explain(ctx, errUnexplained)
	}
}

// sqlState returns the SQLSTATE of a driver's error, empty where there is none.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// refusedValueError is a server's complaint about a value. It does not show the text,
// which quotes the value.
type refusedValueError struct{ err error }

func (r refusedValueError) Error() string { return "a value was refused (" + sqlState(r.err) + ")" }
func (r refusedValueError) Unwrap() error { return r.err }

// discreet keeps the state of a checkpoint, which is its user's secret, out of
// the text of an error: a pooler that mixes statements up can have it read as
// another type (SQLSTATE class 22, data exception).
func discreet(err error) error {
	if strings.HasPrefix(sqlState(err), "22") {
		return refusedValueError{err}
	}
	return err
}

// explain adds to a driver's error what it leaves out: that the context ended,
// which lib/pq reports as a bare 57014 at times, as it does a server's own
// timeout; and what to do behind a pooler.
func (b *Backend) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if ended := ended(ctx); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	if !b.pooler && suspicious(err) {
		return fmt.Errorf("%w (is there a pooler in transaction mode? then use postgres.WithTransactionPooler)", err)
	}
	return err
}

// suspicious reports whether err is what a pooler that mixes up statements
// causes: an answer or a refusal that is none of ours, a statement that is
// unknown or known already, or parameters that are those of another one.
func suspicious(err error) bool {
	if errors.Is(err, errMisrouted) || errors.Is(err, errUnexplained) {
		return true
	}
	switch sqlState(err) {
	case "26000", "42P05", "08P01", "22P02", "22P03":
		return true
	}
	return false
}

// ended is ctx.Err(), also in the moment when the driver's timer for the same
// deadline was faster than the context's own.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Transient implements [backend.Classifier]: lost connections, and the SQLSTATEs
// of PostgreSQL's appendix A that pass by themselves.
func (b *Backend) Transient(err error) bool {
	var network net.Error
	switch {
	case err == nil:
		return false
	case errors.Is(err, errUnexplained), errors.Is(err, errPredated), errors.Is(err, driver.ErrBadConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	}
	state := sqlState(err)
	if len(state) != 5 {
		return false
	}
	switch state[:2] {
	case "08", // connection exception
		"40", // transaction rollback: serialization failure, deadlock
		"53", // insufficient resources
		"57": // operator intervention: shutdown, start-up, statement timeout
		return true
	}
	switch state {
	case "55P03", // lock not available
		"25006",          // read only, as a server is that is about to be replaced
		"25P03", "25P04": // a session ended for being idle inside a transaction, or long in it
		return true
	}
	return false
}
