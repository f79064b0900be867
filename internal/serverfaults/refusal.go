package serverfaults

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
	"github.com/aetomala/worklease/internal/testkit/recorder"
)

func (s *subject) refusalSpecs() {
	It("21a: every write is seen as that, and a renewal goes on until it may", limit, func(ctx SpecContext) {
		db := s.database()
		admin := s.open(with(s.dsn, "default_transaction_read_only", "off"))
		events := &recorder.Recorder{}
		b := on(db)
		a := observed(b, "a", ttl, events)
		token, renewCtx := renewing(ctx, a, work)

		readOnly(ctx, admin, "on")
		db.SetMaxIdleConns(0) // those that ended, which pgx learns of by the next call
		_, err := a.Acquire(ctx, "other")
		for _, err := range []error{
			err, a.Renew(ctx, token), a.Checkpoint(ctx, token, nil),
			a.Release(ctx, token, worklease.ExitFinished), a.Forget(ctx, token),
		} {
			expectNoVerdict(err)
			Expect(stateOf(err)).To(Equal("25006"), "%v", err)
			Expect(b.Transient(err)).To(BeTrue())
		}
		direct := failed(events)
		Eventually(func() int { return failed(events) }).WithTimeout(ttl).Should(BeNumerically(">=", direct+2))

		readOnly(ctx, admin, "off")
		expectRenewed(renewCtx, ttl)
	})

	It("25b: a role without the sequence acquires nothing, and is told", limit, func(ctx SpecContext) {
		db := s.database()
		b := on(s.open(as(s.dsn, role(ctx, db, Grants...))))
		token := acquire(ctx, holder(b, "a", ttl), work)
		Expect(holder(b, "a", ttl).Release(ctx, token, worklease.ExitFinished)).To(Succeed())

		poor := s.open(as(s.dsn, role(ctx, db, Grants[1:]...)))
		_, err := holder(on(poor), "a", ttl).Acquire(ctx, work)
		expectNoVerdict(err)
		Expect(stateOf(err)).To(Equal("42501"), "%v", err)
	})
}

// readOnly makes every session of the database begin read only, or not.
func readOnly(ctx context.Context, admin *sql.DB, value string) {
	GinkgoHelper()
	run(ctx, admin, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+value+`', current_database());
	END $$`)
	terminate(ctx, admin)
}

// Grants are the least that the library's role needs, in the schema of the table.
var Grants = []string{
	"USAGE ON SEQUENCE worklease_fencing_seq",
	"SELECT, INSERT, UPDATE, DELETE ON worklease_leases",
}

// role creates a role with the grants, for the server's lifetime or that of the
// spec, whichever is shorter.
func role(ctx context.Context, db *sql.DB, grants ...string) string {
	GinkgoHelper()
	name := "worklease_" + strings.ToLower(rand.Text())
	run(ctx, db, "CREATE ROLE "+name+" LOGIN")
	DeferCleanup(func(ctx SpecContext) {
		run(ctx, db, "DROP OWNED BY "+name, "DROP ROLE "+name)
	})
	for _, grant := range grants {
		run(ctx, db, "GRANT "+grant+" TO "+name)
	}
	return name
}

// Restricted applies the schema to the database of dsn and creates a role with
// [Grants] alone and the session defaults that are given as name and value. It
// returns the DSN of that role.
func Restricted(ctx context.Context, dsn string, defaults ...[2]string) string {
	GinkgoHelper()
	db := pgtest.OpenWithSchema(dsn)
	name := role(ctx, db, Grants...)
	for _, d := range defaults {
		run(ctx, db, "ALTER ROLE "+name+" SET "+d[0]+" = '"+d[1]+"'")
	}
	return as(dsn, name)
}
