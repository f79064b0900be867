// Package pgtest gives each suite a real PostgreSQL server.
//
// [Database] is all that most specs need: a fresh database on a server that
// the process shares, that of WORKLEASE_TEST_POSTGRES_DSN if it is set and else
// a throwaway one, started at first use. Specs that stop, freeze or reconfigure
// a server use one of their own, from [Start]. Where no server can be had the
// suite fails and says what to do; nothing is skipped.
//
// All functions run inside Ginkgo nodes, report failures there, and register
// their own clean-up with DeferCleanup, so that what is opened in BeforeSuite
// lasts for the suite and what is opened in a spec ends with it.
//
// A server and a *sql.DB keep goroutines of their own. For gleak to see those
// of a spec alone, open both in BeforeSuite, or in the spec after the snapshot:
//
//	var db *sql.DB
//
//	var _ = BeforeSuite(func() { db = pgtest.OpenWithSchema(pgtest.Database()) })
//
//	var _ = BeforeEach(func() {
//		before := gleak.Goroutines()
//		DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
//	})
//
// In a synctest bubble network I/O does not count as blocked: PostgreSQL specs
// run on real time.
package pgtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver of Open, and of this package itself
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend/postgres"
)

const (
	// EnvDSN names a server to use, as a URL, in place of a throwaway one. Its
	// role must be allowed to create databases.
	EnvDSN = "WORKLEASE_TEST_POSTGRES_DSN"

	// EnvBin names the directory of the server's binaries, for machines that
	// have several versions.
	EnvBin = "WORKLEASE_TEST_POSTGRES_BIN"
)

// setup bounds what this package does on a server that should be well.
const setup = 30 * time.Second

// shared is the process's own server. It has no clean-up but the end of the
// process, since no node of Ginkgo lives that long from wherever it is called.
var shared = sync.OnceValue(func() *Server { return launch(Options{}) })

// Database creates a database of the caller's own and returns its DSN, a URL
// that both lib/pq and pgx take. It is dropped with the node that it was called
// from, whoever is still connected.
func Database() string {
	GinkgoHelper()
	return createDatabase(func(drop func()) { DeferCleanup(drop) })
}

// DatabaseFor is [Database] for a benchmark, which is no node: the database is
// dropped with tb, which failures of this package end from now on.
func DatabaseFor(tb testing.TB) string {
	tb.Helper()
	RegisterTestingT(tb)
	return createDatabase(tb.Cleanup)
}

// Open opens dsn with lib/pq, and closes it with the node.
func Open(dsn string) *sql.DB {
	GinkgoHelper()
	return OpenDriver("postgres", dsn)
}

// OpenDriver is [Open] with another driver of database/sql.
func OpenDriver(driver, dsn string) *sql.DB {
	GinkgoHelper()
	db, err := sql.Open(driver, dsn)
	Expect(err).NotTo(HaveOccurred())
	// Its error is that of a connection which the spec has broken.
	DeferCleanup(func() { _ = db.Close() })
	return db
}

// OpenWithSchema is [Open] and [ApplySchema] in the default schema.
func OpenWithSchema(dsn string) *sql.DB {
	GinkgoHelper()
	db := Open(dsn)
	ApplySchema(db, "")
	return db
}

// ApplySchema runs [postgres.Schema] in the named schema, which it creates
// where it is missing; with an empty name, in the default one. It runs it
// twice, since it must be idempotent.
func ApplySchema(db *sql.DB, schema string) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), setup)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	defer tx.Rollback() //nolint:errcheck // After a Commit it says that it has nothing to do.

	if schema != "" {
		name := quote(schema)
		_, err = tx.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+name)
		Expect(err).NotTo(HaveOccurred())
		_, err = tx.ExecContext(ctx, "SET LOCAL search_path TO "+name)
		Expect(err).NotTo(HaveOccurred())
	}
	for range 2 {
		_, err = tx.ExecContext(ctx, postgres.Schema)
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(tx.Commit()).To(Succeed())
}

// createDatabase creates a database on the server of [EnvDSN], or on the shared
// one, and leaves to later what drops it.
func createDatabase(later func(drop func())) string {
	GinkgoHelper()
	dsn := os.Getenv(EnvDSN)
	if dsn == "" {
		dsn = shared().DSN()
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		Fail(EnvDSN + " must be a URL such as postgres://user@host:5432/database?sslmode=disable")
	}
	name := "worklease_" + strings.ToLower(rand.Text())
	execOn(dsn, "CREATE DATABASE "+quote(name))
	later(func() { execOn(dsn, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

func execOn(dsn, statement string) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), setup)
	defer cancel()
	db, err := sql.Open("postgres", dsn)
	Expect(err).NotTo(HaveOccurred())
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	Expect(err).NotTo(HaveOccurred(), fmt.Sprintf("%s on %s", statement, dsn))
}

func quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
