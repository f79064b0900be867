package postgres_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
)

// The tables of earlier versions, as they were created.
const (
	table04 = `
CREATE TABLE worklease_leases (
    work_id       TEXT        PRIMARY KEY,
    holder_id     TEXT        NOT NULL,
    fencing_token BIGINT      NOT NULL DEFAULT 1,
    expires_at    TIMESTAMPTZ NOT NULL,
    checkpoint    BYTEA,
    clean_handoff BOOLEAN     NOT NULL DEFAULT FALSE,
    acquired_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at    TIMESTAMPTZ NOT NULL DEFAULT NOW()
);`

	table05 = `
CREATE SEQUENCE worklease_fencing_seq;
CREATE TABLE worklease_leases (
    work_id       TEXT        PRIMARY KEY,
    holder_id     TEXT        NOT NULL,
    fencing_token BIGINT      NOT NULL DEFAULT nextval('worklease_fencing_seq'),
    expires_at    TIMESTAMPTZ NOT NULL,
    checkpoint    BYTEA,
    clean_handoff BOOLEAN     NOT NULL DEFAULT FALSE,
    acquired_at   TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at    TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
CREATE INDEX idx_worklease_leases_updated_at ON worklease_leases (updated_at);`

	table06 = table05 + `
ALTER TABLE worklease_leases
    ADD COLUMN exit_mode TEXT,
    ADD COLUMN prev_exit_mode TEXT NOT NULL DEFAULT 'none',
    ADD COLUMN prev_holder_id TEXT,
    ADD CONSTRAINT worklease_leases_exit_mode_check
        CHECK (exit_mode IS NULL OR exit_mode IN ('finished', 'abandoned', 'retired')),
    ADD CONSTRAINT worklease_leases_prev_exit_mode_check
        CHECK (prev_exit_mode IN ('none', 'expired', 'finished', 'abandoned', 'retired'));`
)

// Rows as an earlier version may have left them: one that was handed over in good
// order and one whose holder crashed.
const (
	oldRows = `
INSERT INTO worklease_leases (work_id, holder_id, fencing_token, expires_at, checkpoint, clean_handoff) VALUES
    ('released', 'old', 7, NOW() - interval '1 hour', 'whole', TRUE),
    ('crashed', 'old', 90, NOW() - interval '1 hour', 'half', FALSE);`

	laterColumn = `ALTER TABLE worklease_leases ADD COLUMN added_later TEXT`

	// 0.5 and later drew the tokens of these from the sequence.
	drawn = `SELECT setval('worklease_fencing_seq', 90);`
)

// upgrades are the versions to come from, with the steps of UPGRADING.md to take.
var upgrades = []struct {
	version, table, rows string
	steps                []string
}{
	{"0.4", table04, oldRows, []string{"From 0.4 to 0.5", "From 0.5 to 0.6", "From 0.6 to 0.7", "From 0.8 to 1.0"}},
	{"0.5", table05, oldRows + drawn, []string{"From 0.5 to 0.6", "From 0.6 to 0.7", "From 0.8 to 1.0"}},
	{"0.6", table06, oldRows + drawn, []string{"From 0.6 to 0.7", "From 0.8 to 1.0"}},
}

// conforming are the versions whose tables go through the whole suite. Only the
// long run has any: every table becomes the same as today's, which is held in the
// short one.
var conforming []string

var _ = Describe("UPGRADING.md", func() {
	for _, u := range upgrades {
		Describe("on a table of "+u.version, func() {
			if slices.Contains(conforming, u.version) {
				once := sync.Once{}
				schema := "conform_" + strings.ReplaceAll(u.version, ".", "_")
				Describe("makes one that the backend works on, also with a nullable column of a later release", Label("long"),
					conformance.RunSuite(func() backend.Backend {
						once.Do(func() {
							statements := append([]string{u.table}, sections(u.steps)...)
							inSchema(context.Background(), schema, append(statements, laterColumn)...)
						})
						return open(postgres.WithSchema(schema))
					}))
			}

			It("makes the table of today, also when it is run twice", func(ctx SpecContext) {
				schema, fresh := newSchema(), newSchema()
				steps := sections(u.steps)
				inSchema(ctx, schema, u.table, u.rows)
				inSchema(ctx, schema, steps...)
				inSchema(ctx, schema, steps...)
				inSchema(ctx, fresh, postgres.Schema)
				Expect(describe(ctx, schema)).To(Equal(describe(ctx, fresh)))
			}, SpecTimeout(bound))

			It("keeps the state of old rows, calls them expired, and draws tokens above theirs", func(ctx SpecContext) {
				schema := newSchema()
				inSchema(ctx, schema, append([]string{u.table, u.rows}, sections(u.steps)...)...)
				b := open(postgres.WithSchema(schema))

				first := acquire(ctx, b, "new", "a")
				Expect(first.FencingToken).To(BeNumerically(">", 90))
				for work, state := range map[string]string{"released": "whole", "crashed": "half"} {
					rec := acquire(ctx, b, work, "a")
					Expect(rec.FencingToken).To(BeNumerically(">", first.FencingToken))
					Expect(read(ctx, b, rec)).To(Equal(backend.Checkpoint{
						State: []byte(state), PrevExit: backend.ExitExpired, PrevHolderID: "old",
					}))
				}
			}, SpecTimeout(bound))
		})
	}
})

// schemas counts those that specs made.
var schemas int

func newSchema() string {
	schemas++
	return fmt.Sprintf("upgrade_%d", schemas)
}

// inSchema executes statements with schema, created if it is missing, as the
// search_path.
func inSchema(ctx context.Context, schema string, statements ...string) {
	GinkgoHelper()
	conn, err := db.Conn(ctx)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(conn.Close()).To(Succeed()) }()
	statements = append([]string{"CREATE SCHEMA IF NOT EXISTS " + schema, "SET search_path = " + schema}, statements...)
	for _, statement := range append(statements, "RESET search_path") {
		_, err := conn.ExecContext(ctx, statement)
		Expect(err).NotTo(HaveOccurred(), statement)
	}
}

// sqlBlock is a fenced block of SQL.
var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// sections returns the SQL of sections of UPGRADING.md, each of which has some.
func sections(titles []string) []string {
	GinkgoHelper()
	text, err := os.ReadFile("../../UPGRADING.md")
	Expect(err).NotTo(HaveOccurred())
	var blocks []string
	for _, title := range titles {
		_, section, found := strings.Cut(string(text), "\n## "+title+"\n")
		Expect(found).To(BeTrue(), title)
		section, _, _ = strings.Cut(section, "\n## ")
		matches := sqlBlock.FindAllStringSubmatch(section, -1)
		Expect(matches).NotTo(BeEmpty(), title)
		for _, match := range matches {
			blocks = append(blocks, match[1])
		}
	}
	return blocks
}

// describe returns what there is in a schema, without its name and without the
// order of columns.
func describe(ctx context.Context, schema string) []string {
	GinkgoHelper()
	rows, err := db.QueryContext(ctx, `
		SELECT concat_ws(' ', 'column', column_name, data_type, is_nullable, replace(column_default, $1 || '.', ''))
		FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'worklease_leases'
		UNION ALL
		SELECT concat_ws(' ', 'constraint', conname, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE connamespace = $1::regnamespace
		UNION ALL
		SELECT replace(indexdef, $1 || '.', '') FROM pg_indexes WHERE schemaname = $1
		UNION ALL
		SELECT concat_ws(' ', 'sequence', sequencename, data_type, cache_size) FROM pg_sequences WHERE schemaname = $1
		ORDER BY 1`, schema)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(rows.Close()).To(Succeed()) }()
	var lines []string
	for rows.Next() {
		var line string
		Expect(rows.Scan(&line)).To(Succeed())
		lines = append(lines, line)
	}
	Expect(rows.Err()).NotTo(HaveOccurred())
	Expect(lines).NotTo(BeEmpty())
	return lines
}
