package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// lowly makes a role that has what docs/operations.md grants and nothing else, in the
// schema of dsn, and returns dsn as that role.
func lowly(ctx context.Context, dsn string) (role, as string) {
	GinkgoHelper()
	role = "app_" + strings.ToLower(rand.Text())
	exec(ctx, db, "CREATE ROLE "+role)
	DeferCleanup(func(ctx context.Context) { exec(ctx, db, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	text, err := os.ReadFile("../../docs/operations.md")
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "\n## Grants\n")
	Expect(found).To(BeTrue())
	grants := sqlBlock.FindStringSubmatch(section)
	owner := pgtest.Open(dsn)
	exec(ctx, owner, regexp.MustCompile(`\bapp\b`).ReplaceAllString(grants[1], role))
	exec(ctx, owner, "GRANT USAGE ON SCHEMA "+schemaOf(dsn)+" TO "+role)
	return role, with(dsn, "role", role)
}

func schemaOf(dsn string) string {
	GinkgoHelper()
	u, err := url.Parse(dsn)
	Expect(err).NotTo(HaveOccurred())
	return u.Query().Get("search_path")
}

// finding matches an error of Check with exactly these lines, in their order.
func finding(lines ...string) types.GomegaMatcher {
	return WithTransform(func(err error) []string {
		if err == nil {
			return nil
		}
		text, found := strings.CutPrefix(err.Error(), "postgres: Check: ")
		Expect(found).To(BeTrue(), text)
		return strings.Split(text, "\n")
	}, HaveExactElements(lines))
}

var _ = Describe("Check", func() {
	DescribeTable("finds nothing wrong with the schema of today and the grants of the manual",
		func(ctx SpecContext, opts ...postgres.Option) {
			own := ownSchema(true)
			_, as := lowly(ctx, own)
			b := on(pgtest.Open(as), opts...)
			Expect(b.Check(ctx)).To(Succeed(), "before the first lease")
			acquire(ctx, b, work, "a")
			Expect(b.Check(ctx)).To(Succeed(), "with a lease")
		},
		Entry("prepared", SpecTimeout(bound)),
		Entry("behind a pooler", SpecTimeout(bound), postgres.WithTransactionPooler()),
	)

	It("finds nothing wrong in a schema outside of the search_path, and names it otherwise", func(ctx SpecContext) {
		Expect(open(postgres.WithSchema(oddSchema)).Check(ctx)).To(Succeed())
		Expect(open(postgres.WithSchema(`no "such`)).Check(ctx)).To(finding(
			`no table "no ""such".worklease_leases: CREATE SCHEMA IF NOT EXISTS "no ""such", then postgres.Schema with search_path set to "no ""such"`))
	}, SpecTimeout(bound))

	It("says how to make a schema that is named, and finds nothing wrong when that was done", func(ctx SpecContext) {
		own := pgtest.Database()
		named := on(pgtest.Open(own), postgres.WithSchema("coordination"))
		err := named.Check(ctx)
		advice := regexp.MustCompile(`: (CREATE SCHEMA .*), then postgres\.Schema with search_path set to (.*)$`).FindStringSubmatch(fmt.Sprint(err))
		Expect(advice).To(HaveLen(3), "%v", err)
		exec(ctx, pgtest.Open(own), advice[1]+"; SET search_path TO "+advice[2]+"; "+postgres.Schema)
		Expect(named.Check(ctx)).To(Succeed())
	}, SpecTimeout(bound))

	It("says of a database without the schema that alone", func(ctx SpecContext) {
		own := ownSchema(false)
		db := pgtest.Open(own)
		path := scalar[string](ctx, db, `SELECT current_setting('search_path')`)
		role := scalar[string](ctx, db, `SELECT quote_ident(current_user)`)
		Expect(on(db).Check(ctx)).To(finding(
			`no table worklease_leases for role ` + role + ` with search_path ` + path + `: apply postgres.Schema, or GRANT USAGE ON SCHEMA`))
	}, SpecTimeout(bound))

	DescribeTable("names what a table of an earlier version lacks",
		func(ctx SpecContext, table string, want ...string) {
			own := ownSchema(false)
			inSchema(ctx, schemaOf(own), table)
			Expect(on(pgtest.Open(own)).Check(ctx)).To(finding(want...))
		},
		Entry("0.4", SpecTimeout(bound), table04,
			"table worklease_leases is of an earlier version and lacks exit_mode TEXT, prev_exit_mode TEXT, prev_holder_id TEXT: see UPGRADING.md",
			"no sequence worklease_fencing_seq: see UPGRADING.md if there are rows, else apply postgres.Schema"),
		Entry("0.5", SpecTimeout(bound), table05,
			"table worklease_leases is of an earlier version and lacks exit_mode TEXT, prev_exit_mode TEXT, prev_holder_id TEXT: see UPGRADING.md"),
		Entry("none, but for the name", SpecTimeout(bound), `CREATE TABLE worklease_leases (); CREATE SEQUENCE worklease_fencing_seq`,
			"table worklease_leases is of an earlier version and lacks work_id TEXT, holder_id TEXT, fencing_token BIGINT, expires_at TIMESTAMPTZ, "+
				"checkpoint BYTEA, exit_mode TEXT, prev_exit_mode TEXT, prev_holder_id TEXT, acquired_at TIMESTAMPTZ, updated_at TIMESTAMPTZ: see UPGRADING.md",
			"table worklease_leases has no unique index on work_id: ALTER TABLE worklease_leases ADD PRIMARY KEY (work_id)"),
		Entry("0.6, which lacks nothing", SpecTimeout(bound), table06),
	)

	DescribeTable("names what somebody has changed, and what mends it",
		func(ctx SpecContext, change, want string) {
			own := ownSchema(true)
			db := pgtest.Open(own)
			role, as := lowly(ctx, own)
			b := on(pgtest.Open(as))
			for n := range 3 {
				acquire(ctx, b, fmt.Sprint("work-", n), "a")
			}
			named := strings.NewReplacer("$app", role)
			exec(ctx, db, named.Replace(change))
			Expect(b.Check(ctx)).To(finding(named.Replace(want)))
		},
		Entry("a type", SpecTimeout(bound), `ALTER TABLE worklease_leases ALTER COLUMN expires_at TYPE timestamp`,
			`table worklease_leases: expires_at is timestamp without time zone, not TIMESTAMPTZ`),
		Entry("two types", SpecTimeout(bound), `ALTER TABLE worklease_leases ALTER COLUMN checkpoint TYPE text, ALTER COLUMN fencing_token TYPE integer`,
			`table worklease_leases: fencing_token is integer, not BIGINT, checkpoint is text, not BYTEA`),
		Entry("a column that is gone", SpecTimeout(bound), `ALTER TABLE worklease_leases DROP COLUMN prev_holder_id`,
			`table worklease_leases is of an earlier version and lacks prev_holder_id TEXT: see UPGRADING.md`),
		Entry("the token's column gone", SpecTimeout(bound), `ALTER TABLE worklease_leases DROP COLUMN fencing_token`,
			`table worklease_leases is of an earlier version and lacks fencing_token BIGINT: see UPGRADING.md`),
		Entry("the primary key gone", SpecTimeout(bound), `ALTER TABLE worklease_leases DROP CONSTRAINT worklease_leases_pkey`,
			`table worklease_leases has no unique index on work_id: ALTER TABLE worklease_leases ADD PRIMARY KEY (work_id)`),
		Entry("a primary key of two columns", SpecTimeout(bound), `ALTER TABLE worklease_leases DROP CONSTRAINT worklease_leases_pkey, ADD PRIMARY KEY (work_id, holder_id)`,
			`table worklease_leases has no unique index on work_id: ALTER TABLE worklease_leases ADD PRIMARY KEY (work_id)`),
		Entry("a privilege", SpecTimeout(bound), `REVOKE DELETE ON worklease_leases FROM $app`,
			`role $app lacks DELETE: GRANT DELETE ON worklease_leases TO $app`),
		Entry("all privileges", SpecTimeout(bound), `REVOKE ALL ON worklease_leases FROM $app`,
			`role $app lacks SELECT, INSERT, UPDATE, DELETE: GRANT SELECT, INSERT, UPDATE, DELETE ON worklease_leases TO $app`),
		Entry("the privilege on one column", SpecTimeout(bound), `REVOKE UPDATE ON worklease_leases FROM $app;
			GRANT UPDATE (checkpoint) ON worklease_leases TO $app`,
			`role $app lacks UPDATE: GRANT UPDATE ON worklease_leases TO $app`),
		Entry("the privilege on the sequence", SpecTimeout(bound), `REVOKE USAGE ON SEQUENCE worklease_fencing_seq FROM $app`,
			`role $app lacks USAGE: GRANT USAGE ON SEQUENCE worklease_fencing_seq TO $app`),
		Entry("the sequence gone", SpecTimeout(bound), `DROP SEQUENCE worklease_fencing_seq CASCADE`,
			`no sequence worklease_fencing_seq: see UPGRADING.md if there are rows, else apply postgres.Schema`),
		Entry("a sequence that sessions cache", SpecTimeout(bound), `ALTER SEQUENCE worklease_fencing_seq CACHE 20`,
			`sequence worklease_fencing_seq has CACHE 20, so that tokens of several sessions do not rise together: ALTER SEQUENCE worklease_fencing_seq CACHE 1`),
		Entry("a sequence that begins anew", SpecTimeout(bound), `ALTER SEQUENCE worklease_fencing_seq CYCLE`,
			`sequence worklease_fencing_seq would begin anew at its end: ALTER SEQUENCE worklease_fencing_seq NO CYCLE`),
		Entry("a sequence that falls", SpecTimeout(bound), `ALTER SEQUENCE worklease_fencing_seq INCREMENT BY -1`,
			`sequence worklease_fencing_seq falls, by -1: ALTER SEQUENCE worklease_fencing_seq INCREMENT BY 1`),
		Entry("a sequence behind the rows", SpecTimeout(bound), `SELECT setval('worklease_fencing_seq', 2)`,
			`sequence worklease_fencing_seq stands at 2, below the stored token 3: SELECT setval('worklease_fencing_seq', 3)`),
		Entry("a sequence that was restarted", SpecTimeout(bound), `ALTER SEQUENCE worklease_fencing_seq RESTART`,
			`sequence worklease_fencing_seq stands at 1, below the stored token 3: SELECT setval('worklease_fencing_seq', 3)`),
	)

	It("takes what also works for right", func(ctx SpecContext) {
		own := ownSchema(true)
		db := pgtest.Open(own)
		role, as := lowly(ctx, own)
		b := on(pgtest.Open(as))
		acquire(ctx, b, work, "a")
		for _, change := range []string{
			`ALTER TABLE worklease_leases ALTER COLUMN holder_id TYPE varchar(1024)`,
			`ALTER TABLE worklease_leases ADD COLUMN added_later text`,
			`DROP INDEX idx_worklease_leases_updated_at`,
			`ALTER TABLE worklease_leases DROP CONSTRAINT worklease_leases_pkey, ADD UNIQUE (work_id)`,
			`ALTER SEQUENCE worklease_fencing_seq RESTART WITH 500`,
			`ALTER SEQUENCE worklease_fencing_seq INCREMENT BY 10`,
			`REVOKE USAGE ON SEQUENCE worklease_fencing_seq FROM $app; GRANT UPDATE ON SEQUENCE worklease_fencing_seq TO $app`,
			`REVOKE UPDATE ON worklease_leases FROM $app; GRANT UPDATE (work_id, holder_id, fencing_token, expires_at, checkpoint,
				exit_mode, prev_exit_mode, prev_holder_id, acquired_at, updated_at) ON worklease_leases TO $app`,
		} {
			exec(ctx, db, strings.ReplaceAll(change, "$app", role))
			Expect(b.Check(ctx)).To(Succeed(), change)
		}
		Expect(b.Renew(ctx, acquire(ctx, b, "other", "a"), ttl)).To(Succeed())
	}, SpecTimeout(bound))

	DescribeTable("names the settings of a session that it cannot do with",
		func(ctx SpecContext, setting, value, want string, opts ...postgres.Option) {
			own := ownSchema(true)
			acquire(ctx, on(pgtest.Open(own)), work, "a")
			role, as := lowly(ctx, own)
			Expect(on(pgtest.Open(with(as, setting, value)), opts...).Check(ctx)).To(finding(strings.ReplaceAll(want, "$app", role)))
		},
		Entry("repeatable read", SpecTimeout(bound), "default_transaction_isolation", "repeatable read",
			`transactions are repeatable read: ALTER ROLE $app SET default_transaction_isolation = 'read committed'`),
		Entry("serializable, behind a pooler", SpecTimeout(bound), "default_transaction_isolation", "serializable",
			`transactions are serializable: ALTER ROLE $app SET default_transaction_isolation = 'read committed'`, postgres.WithTransactionPooler()),
		Entry("read only", SpecTimeout(bound), "default_transaction_read_only", "on",
			`transactions are read only: ALTER ROLE $app SET default_transaction_read_only = off`),
	)

	It("names a standby", func(ctx SpecContext) {
		own := ownSchema(true)
		exec(ctx, pgtest.Open(own), `CREATE FUNCTION pg_is_in_recovery() RETURNS boolean STABLE LANGUAGE sql AS 'SELECT true'`)
		standby := with(with(own, "search_path", schemaOf(own)+",pg_catalog"), "default_transaction_read_only", "on")
		Expect(on(pgtest.Open(standby)).Check(ctx)).To(finding("the server is a standby, which takes no writes: connect to the primary"))
	}, SpecTimeout(bound))

	It("names a schema that the role may not look into", func(ctx SpecContext) {
		own := ownSchema(true)
		role, as := lowly(ctx, own)
		exec(ctx, pgtest.Open(own), "REVOKE USAGE ON SCHEMA "+schemaOf(own)+" FROM "+role)
		err := on(pgtest.Open(as), postgres.WithSchema(schemaOf(own))).Check(ctx)
		Expect(err).To(MatchError(ContainSubstring("GRANT USAGE ON SCHEMA")))
		Expect(err).To(saysState("42501"))
	}, SpecTimeout(bound))

	It("names all that is wrong at once", func(ctx SpecContext) {
		own := ownSchema(true)
		exec(ctx, pgtest.Open(own), `ALTER TABLE worklease_leases DROP COLUMN exit_mode;
			ALTER SEQUENCE worklease_fencing_seq CACHE 5`)
		b := on(pgtest.Open(with(own, "default_transaction_isolation", "serializable")))
		err := b.Check(ctx)
		Expect(err).To(MatchError(And(ContainSubstring("lacks exit_mode TEXT"), ContainSubstring("CACHE 5"), ContainSubstring("serializable"))))
	}, SpecTimeout(bound))

	It("draws no token where the sequence says where it stands", func(ctx SpecContext) {
		db := pgtest.Open(ownSchema(true))
		b := on(db)
		Expect(b.Check(ctx)).To(Succeed())
		Expect(acquire(ctx, b, work, "a").FencingToken).To(Equal(uint64(1)))
		Expect(b.Check(ctx)).To(Succeed())
		Expect(acquire(ctx, b, "other", "a").FencingToken).To(Equal(uint64(2)))
	}, SpecTimeout(bound))

	It("gives the driver's error where it cannot look", func(ctx SpecContext) {
		noLeaks()
		err := on(openStub(refusing{syscall.ECONNREFUSED})).Check(ctx)
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
		Expect(err).To(MatchError(HavePrefix("postgres: Check: ")))
	}, SpecTimeout(bound))

	It("gives the error of a context that is done, and asks nothing", func(ctx SpecContext) {
		noLeaks()
		done, cancel := context.WithCancel(ctx)
		cancel()
		Expect(on(openStub(refusing{sql.ErrConnDone})).Check(done)).To(And(MatchError(context.Canceled), Not(MatchError(sql.ErrConnDone))))
	}, SpecTimeout(bound))
})
