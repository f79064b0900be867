//go:build linux

package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	_ "github.com/lib/pq" // the driver of the administration

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// PostgresOptions are where the server differs from its defaults: room, so that
// no checkpoint falls into a turn, and the counting of statements. Durability is
// the default one: fsync, full_page_writes and synchronous_commit are on.
var PostgresOptions = []string{
	"shared_buffers=256MB", "max_wal_size=8GB", "checkpoint_timeout=1h", "max_connections=200",
	"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=1000",
}

// EnvBin names the directory of the server's binaries, as in the test kit.
const EnvBin = "WORKLEASE_TEST_POSTGRES_BIN"

// Postgres is a server of PostgreSQL.
type Postgres struct {
	*process
	Pgbench string // the program
	port    int
	admin   *sql.DB
	major   int
}

// StartPostgres starts one.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	p, err := newProcess("postgres")
	if err != nil {
		return nil, err
	}
	s := &Postgres{process: p, port: daemon.FreePort(), Pgbench: filepath.Join(bin, "pgbench")}
	if _, err := os.Stat(s.Pgbench); err != nil { // a server without its clients
		if s.Pgbench, err = exec.LookPath("pgbench"); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(p.dir, "data")
	initdb := p.command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
	if err := initdb.Run(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, p.said())
	}
	if s.admin, err = sql.Open("postgres", s.DSN("postgres")); err != nil {
		return nil, err
	}
	s.admin.SetMaxOpenConns(1)
	args := []string{"-D", data, "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + p.dir}
	for _, option := range PostgresOptions {
		args = append(args, "-c", option)
	}
	if err := p.start(ctx, s.admin.PingContext, filepath.Join(bin, "postgres"), args...); err != nil {
		return nil, err
	}
	err = s.admin.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int / 10000`).Scan(&s.major)
	if err != nil {
		return nil, err
	}
	_, err = s.admin.ExecContext(ctx, `CREATE EXTENSION pg_stat_statements`)
	return s, err
}

// DSN names a database of the server.
func (s *Postgres) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Create creates a database.
func (s *Postgres) Create(ctx context.Context, name string) (dsn string, err error) {
	_, err = s.admin.ExecContext(ctx, "CREATE DATABASE "+name)
	return s.DSN(name), err
}

// Version returns the server's version.
func (s *Postgres) Version(ctx context.Context) (version string, err error) {
	err = s.admin.QueryRowContext(ctx, "SHOW server_version").Scan(&version)
	return version, err
}

// Read implements [measure.Meter] for what was done in other databases than the
// administration's. A session's statistics are complete only when it has ended,
// so it waits for those that are about to.
func (s *Postgres) Read(ctx context.Context) (c measure.Cost, err error) {
	if err := s.idle(ctx); err != nil {
		return c, err
	}
	err = s.admin.QueryRowContext(ctx, `SELECT
		(SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE dbid <> (SELECT oid FROM pg_database WHERE datname = current_database())),
		pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'),
		(`+s.flushes()+`)`).Scan(&c.Statements, &c.LogBytes, &c.Flushes)
	if err != nil {
		return c, err
	}
	c.CPU, err = s.cpu()
	return c, err
}

// flushes is the query for how often the log was flushed.
func (s *Postgres) flushes() string {
	if s.major >= 18 {
		return `SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'`
	}
	return `SELECT wal_sync FROM pg_stat_wal`
}

// idle returns when no client but the administration is connected.
func (s *Postgres) idle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		var n int
		err := s.admin.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d clients are still connected: %w", n, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close ends the server.
func (s *Postgres) Close() error {
	s.admin.Close()
	return s.process.Close()
}

// binaries finds the directory that holds initdb and postgres, the newest one.
func binaries() (string, error) {
	dirs := []string{os.Getenv(EnvBin)}
	if dirs[0] == "" {
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
		if err != nil {
			return "", err
		}
		slices.Reverse(found)
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); dir != "" && err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no PostgreSQL server: run `make postgres`, or name its binaries' directory in " + EnvBin)
}
