//go:build linux

package storm

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// server is a PostgreSQL server of the run's own, which dies with the run.
type server struct {
	bin, dir string
	port     int
	account  daemon.Account
	log      *os.File
	running  *exec.Cmd
}

// envBin names the directory of the server's binaries, as in the test kit.
const envBin = "WORKLEASE_TEST_POSTGRES_BIN"

// newServer makes a server in dir, starts it, and applies the schema.
func newServer(ctx context.Context, dir string) (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &server{bin: bin, dir: filepath.Join(dir, "server")}
	if s.account, err = daemon.Unprivileged(); err != nil {
		return nil, err
	}
	if err = os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err = s.account.Own(s.dir); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(dir, "server.log")); err != nil {
		return nil, err
	}
	initdb := s.command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err = initdb.Run(); err != nil {
		return nil, fmt.Errorf("storm: initdb: %w (see %s)", err, s.log.Name())
	}
	s.port = daemon.FreePort()
	if err = s.start(ctx); err != nil {
		return nil, err
	}
	db, err := sql.Open("postgres", s.dsn(s.port))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, postgres.Schema+schema)
	return s, err
}

// dsn names the server at a port, its own or a proxy's.
func (s *server) dsn(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// start starts the server and returns when it takes connections.
func (s *server) start(ctx context.Context) error {
	s.running = s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+s.dir,
		"-c", "max_connections=150", "-c", "shared_buffers=32MB")
	if err := s.running.Start(); err != nil {
		return err
	}
	db, err := sql.Open("postgres", s.dsn(s.port))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("storm: the server does not start: %w (see %s)", err, s.log.Name())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// crash takes the server down as pg_ctl stop -m immediate does, unless it is down.
func (s *server) crash() error {
	if s.running == nil {
		return nil
	}
	if err := s.running.Process.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := s.running.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	s.running = nil
	return nil
}

// terminate ends about half of the sessions.
func (s *server) terminate(ctx context.Context) error {
	db, err := sql.Open("postgres", s.dsn(s.port))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = db.ExecContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5`)
	return err
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account.Credential, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

// binaries finds the directory that holds initdb and postgres.
func binaries() (string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	more, err := filepath.Glob("/usr/pgsql-*/bin")
	if err != nil {
		return "", err
	}
	dirs = append(dirs, more...)
	slices.SortFunc(dirs, func(a, b string) int { return -cmp.Compare(a, b) })
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append([]string{filepath.Dir(path)}, dirs...)
	}
	if dir := os.Getenv(envBin); dir != "" {
		dirs = []string{dir}
	}
	for _, dir := range dirs {
		_, initdb := os.Stat(filepath.Join(dir, "initdb"))
		_, postgres := os.Stat(filepath.Join(dir, "postgres"))
		if initdb == nil && postgres == nil {
			return dir, nil
		}
	}
	return "", errors.New("storm: no PostgreSQL server: run `make postgres`, or name its binaries' directory in " + envBin)
}
