package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Schema creates what the backend needs: a table, a sequence and an index. Its
// statements are idempotent. It names no schema, so it lands in the first one of
// the search_path.
//
//go:embed schema.sql
var Schema string

//go:embed queries/*.sql
var queryFiles embed.FS

// The statements. Each is told its own name as its first argument, does nothing
// under another one, and answers with its name first: behind a pooler that mixes
// prepared statements up, one of ours run in place of another changes nothing
// and is noticed.
const (
	acquire    = "acquire"
	check      = "check"
	checkpoint = "checkpoint"
	force      = "force"
	forget     = "forget"
	guard      = "guard"
	list       = "list"
	probe      = "probe"
	read       = "read"
	release    = "release"
	renew      = "renew"
	renewBatch = "renew_batch"
	restore    = "restore"
	sweep      = "sweep"
	tokens     = "tokens"
	why        = "why"
	whyBatch   = "why_batch"
)

var statementNames = []string{
	acquire, check, checkpoint, force, forget, guard, list, probe, read, release, renew, renewBatch, restore, sweep, tokens,
	why, whyBatch,
}

// statement is one of ours, prepared when it is first used.
type statement struct {
	text     string
	prepared atomic.Pointer[sql.Stmt]
	wanted   atomic.Bool // by a transaction, inside of which it cannot be prepared
}

// texts reads the texts of queries.
type texts struct {
	told    bool // whether who frees a lease tells those who wait
	qualify *strings.Replacer
}

// newTexts returns the texts with their relations qualified by schema, or by the
// search_path where schema is empty.
func newTexts(schema string, told bool) (texts, error) {
	qualify := strings.NewReplacer()
	if schema != "" {
		if !utf8.ValidString(schema) || strings.ContainsRune(schema, 0) || len(schema) > maxIdentifier {
			return texts{}, fmt.Errorf("schema %.80q is not an identifier of at most %d bytes", schema, maxIdentifier)
		}
		ident := `"` + strings.ReplaceAll(schema, `"`, `""`) + `".`
		qualify = strings.NewReplacer(
			"worklease_leases", ident+"worklease_leases",
			"'worklease_leases'", literal(ident+"worklease_leases"),
			"'worklease_fencing_seq'", literal(ident+"worklease_fencing_seq"),
		)
	}
	return texts{told: told, qualify: qualify}, nil
}

// of returns the text of a query, its fragments filled in.
func (t texts) of(name string) (string, error) {
	text, err := t.raw(name)
	return t.qualify.Replace(text), err
}

func (t texts) raw(name string) (string, error) {
	file, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		return "", err
	}
	text := string(file)
	for _, fragment := range []string{"told", "channel"} {
		place := "/*" + fragment + "*/"
		if name == fragment || fragment == "told" && !t.told || !strings.Contains(text, place) {
			continue
		}
		inside, err := t.raw(fragment)
		if err != nil {
			return "", err
		}
		text = strings.ReplaceAll(text, place, "\n"+inside)
	}
	return text, nil
}

// statements returns all of ours.
func (t texts) statements() (map[string]*statement, error) {
	statements := make(map[string]*statement, len(statementNames))
	for _, name := range statementNames {
		text, err := t.of(name)
		if err != nil {
			return nil, err
		}
		statements[name] = &statement{text: text}
	}
	return statements, nil
}

// literal quotes a text. E, so that a backslash means the same whatever
// standard_conforming_strings says.
func literal(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// maxIdentifier is NAMEDATALEN - 1 (PostgreSQL, "Lexical Structure"); the server
// would cut a longer name.
const maxIdentifier = 63

// sent is a statement's name that counts how often it was sent: database/sql
// asks a Valuer for its value once for each attempt, and makes another by itself
// when a connection broke, perhaps after the server had executed the first.
type sent struct {
	name  string
	times int
}

// Value implements driver.Valuer.
func (s *sent) Value() (driver.Value, error) {
	s.times++
	return s.name, nil
}

// errMisrouted says that the answer was that of another statement.
var errMisrouted = errors.New("another statement answered")

// row runs a statement and scans its only row into dest. It returns
// sql.ErrNoRows where a guarded write, which has no dest, answered none, and
// whether the statement was sent more than once, so that its answer may be the
// echo of its own first execution.
func (b *Backend) row(ctx context.Context, name string, args []any, dest ...any) (resent bool, err error) {
	return b.rows(ctx, name, args, func() {}, dest...)
}

// rows is row for an answer of several rows: it scans each into dest, and then
// calls next.
func (b *Backend) rows(ctx context.Context, name string, args []any, next func(), dest ...any) (resent bool, err error) {
	s := &sent{name: name}
	args = slices.Insert(args, 0, any(s))
	read := func(rows *sql.Rows) error { return scan(rows, name, next, dest) }
	switch in := joined(ctx); {
	case in != nil:
		err = b.inside(ctx, in, name, args, read)
	case b.pooler:
		err = b.transact(ctx, name, args, read)
	default:
		err = b.prepared(ctx, name, args, read)
	}
	if name == checkpoint {
		err = discreet(err)
	}
	return s.times > 1, b.explain(ctx, err)
}

// scan reads the rows of an answer to the statement called name.
func scan(rows *sql.Rows, name string, next func(), dest []any) error {
	defer func() { _ = rows.Close() }() // a no-op after the one below
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	found := false
	for rows.Next() {
		found = true
		if len(columns) != 1+len(dest) {
			return fmt.Errorf("%w: %d columns in place of the %d of %q", errMisrouted, len(columns), 1+len(dest), name)
		}
		var answered string
		err := rows.Scan(append([]any{&answered}, dest...)...)
		switch {
		case rows.Err() != nil:
			return rows.Err()
		case answered != name:
			return fmt.Errorf("%w: %q in place of %q", errMisrouted, answered, name)
		case err != nil:
			return err
		}
		next()
	}
	// An error of the commit comes after the rows.
	if err := rows.Close(); err != nil {
		return err
	}
	switch {
	case rows.Err() != nil:
		return rows.Err()
	case found:
		return nil
	case len(dest) > 0:
		return fmt.Errorf("%w: no row in place of that of %q", errMisrouted, name)
	default:
		return sql.ErrNoRows
	}
}

// prepared runs a statement prepared: one round trip once a connection knows it.
func (b *Backend) prepared(ctx context.Context, name string, args []any, read func(*sql.Rows) error) error {
	for _, inside := range []string{checkpoint, guard} {
		if s := b.statements[inside]; s.wanted.Load() && s.prepared.Load() == nil {
			_, _ = b.prepare(ctx, s) // without it a transaction has a round trip more
		}
	}
	stmt, err := b.prepare(ctx, b.statements[name])
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	return read(rows)
}

// prepare returns s prepared, which it is when it is first used.
func (b *Backend) prepare(ctx context.Context, s *statement) (*sql.Stmt, error) {
	if stmt := s.prepared.Load(); stmt != nil {
		return stmt, nil
	}
	fresh, err := b.db.PrepareContext(ctx, s.text)
	if err != nil {
		return nil, err
	}
	// Where somebody else was faster, fresh stays open: database/sql closes a
	// statement under the lock of the whole pool, which a dead connection would
	// then hold.
	s.prepared.CompareAndSwap(nil, fresh)
	return s.prepared.Load(), nil
}
