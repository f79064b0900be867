package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aetomala/worklease/internal/bounded"
)

// Check says what on the server is not as this backend needs it, all of it at once,
// each with what to do. It returns nil when all is well. It is for start-up: what it
// finds would otherwise show later, as the error of some call or not at all.
//
// It looks for the table and the sequence of [Schema], and that they are those of this
// version: each column and its type, the unique index on work_id, a sequence that
// rises by CACHE 1 without CYCLE and stands at the greatest stored token or above;
// for the privileges that docs/operations.md lists; for the isolation level READ
// COMMITTED; and for a server that takes writes.
//
// It takes two short statements, of which one reads the whole table, and waits no
// longer than ctx lasts. It writes nothing, but draws a token where rows are stored
// and none was drawn since the sequence was made or restarted. Where it cannot look,
// as without a connection, the error is the driver's, beside what was found before;
// when ctx ends it matches ctx.Err(). It does not look at a listener: [Listener.Err]
// does.
func (b *Backend) Check(ctx context.Context) error {
	err := bounded.Do(ctx, b.check)
	if err != nil {
		err = fmt.Errorf("postgres: Check: %w", err)
	}
	return err
}

func (b *Backend) check(ctx context.Context) error {
	names, types := schemaColumns()
	var f facts
	_, err := b.row(ctx, check, []any{names, types},
		&f.table, &f.tableFound, &f.missing, &f.otherType, &f.unique, &f.ungranted, &f.maySelect,
		&f.sequence, &f.sequenceFound, &f.mayDraw, &f.cache, &f.cycle, &f.increment,
		&f.role, &f.searchPath, &f.isolation, &f.standby, &f.readOnly)
	switch {
	case sqlState(err) == "42501": // of all that it reads, a schema alone can be closed
		return fmt.Errorf("the role may not look into the schema: GRANT USAGE ON SCHEMA: %w", err)
	case err != nil:
		return err
	}
	findings := f.findings()
	if f.maySelect && f.sequenceFound && f.mayDraw && !strings.Contains(f.missing, "fencing_token") {
		findings = append(findings, b.checkTokens(ctx, f))
	}
	return errors.Join(findings...)
}

// checkTokens holds the sequence against the stored tokens.
func (b *Backend) checkTokens(ctx context.Context, f facts) error {
	var stored int64
	var drawn sql.NullInt64
	_, err := b.row(ctx, tokens, []any{!f.readOnly}, &stored, &drawn)
	if err != nil {
		return err
	}
	if drawn.Valid && drawn.Int64 < stored {
		return fmt.Errorf("sequence %s stands at %d, below the stored token %d: SELECT setval('%s', %d)",
			f.sequence, drawn.Int64, stored, strings.ReplaceAll(f.sequence, "'", "''"), stored)
	}
	return nil
}

// schemaColumns reads the names and types of the columns out of Schema, as literals
// of arrays.
func schemaColumns() (names, types string) {
	var n, t []string
	for _, column := range columnLine.FindAllStringSubmatch(Schema, -1) {
		n, t = append(n, column[1]), append(t, column[2])
	}
	return "{" + strings.Join(n, ",") + "}", "{" + strings.Join(t, ",") + "}"
}

var columnLine = regexp.MustCompile(`(?m)^    ([a-z_]+) +([A-Z]+)`)

// facts are the answer of queries/check.sql.
type facts struct {
	table      string
	tableFound bool
	missing    string // columns with their types
	otherType  string // columns that have another type
	unique     bool   // has the index that ON CONFLICT needs
	ungranted  string // privileges on the table
	maySelect  bool

	sequence         string
	sequenceFound    bool
	mayDraw          bool
	cache, increment int64
	cycle            bool

	role, searchPath, isolation string
	standby, readOnly           bool
}

func (f facts) findings() []error {
	var all []error
	found := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}

	schema, qualified := strings.CutSuffix(f.table, ".worklease_leases")
	switch {
	case !f.tableFound && qualified:
		found(true, "no table %s: CREATE SCHEMA IF NOT EXISTS %s, then postgres.Schema with search_path set to %s", f.table, schema, schema)
	case !f.tableFound:
		found(true, "no table %s for role %s with search_path %s: apply postgres.Schema, or GRANT USAGE ON SCHEMA",
			f.table, f.role, f.searchPath)
	default:
		found(f.missing != "", "table %s is of an earlier version and lacks %s: see UPGRADING.md", f.table, f.missing)
		found(f.otherType != "", "table %s: %s", f.table, f.otherType)
		found(!f.unique, "table %s has no unique index on work_id: ALTER TABLE %s ADD PRIMARY KEY (work_id)", f.table, f.table)
		found(f.ungranted != "", "role %s lacks %s: GRANT %s ON %s TO %s", f.role, f.ungranted, f.ungranted, f.table, f.role)
	}

	found(f.tableFound && !f.sequenceFound, "no sequence %s: see UPGRADING.md if there are rows, else apply postgres.Schema", f.sequence)
	if f.sequenceFound {
		found(!f.mayDraw, "role %s lacks USAGE: GRANT USAGE ON SEQUENCE %s TO %s", f.role, f.sequence, f.role)
		found(f.cache > 1, "sequence %s has CACHE %d, so that tokens of several sessions do not rise together: ALTER SEQUENCE %s CACHE 1",
			f.sequence, f.cache, f.sequence)
		found(f.cycle, "sequence %s would begin anew at its end: ALTER SEQUENCE %s NO CYCLE", f.sequence, f.sequence)
		found(f.increment < 1, "sequence %s falls, by %d: ALTER SEQUENCE %s INCREMENT BY 1", f.sequence, f.increment, f.sequence)
	}

	found(f.isolation != "read committed", "transactions are %s: ALTER ROLE %s SET default_transaction_isolation = 'read committed'",
		f.isolation, f.role)
	found(f.standby, "the server is a standby, which takes no writes: connect to the primary")
	found(f.readOnly && !f.standby, "transactions are read only: ALTER ROLE %s SET default_transaction_read_only = off", f.role)
	return all
}
