package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// Options say how a server of a spec's own differs from the shared one.
type Options struct {
	// Config holds further lines of postgresql.conf; the last one of a name wins.
	Config []string

	// Env holds further variables of the server's environment, as "name=value".
	Env []string

	// Durable leaves fsync on, which is off otherwise.
	Durable bool
}

// StopMode is how a server goes down.
type StopMode int

const (
	// Fast ends every session and leaves a clean data directory.
	Fast StopMode = iota

	// Immediate is a crash: the next start recovers from the log.
	Immediate
)

// Server is a throwaway PostgreSQL server on a port and in a directory of its
// own. Its methods fail the node that calls them. They are for one goroutine at
// a time.
//
// It does not outlive the process, however that ends, and neither does its
// directory.
type Server struct {
	dir    string
	bin    string
	env    []string
	port   int
	user   account
	keeper *exec.Cmd
	leash  io.Closer // the keeper clears up when this is closed
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// Start starts a server of the caller's own, which goes away with the node that
// it was called from. It never is that of [EnvDSN].
func Start(opts Options) *Server {
	GinkgoHelper()
	s := launch(opts)
	DeferCleanup(s.close)
	return s
}

// DSN names the server's maintenance database. It stays the same over a Stop
// and a Start.
func (s *Server) DSN() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Port is where the server listens, on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Database creates a database on this server, dropped with the server alone.
func (s *Server) Database() string {
	GinkgoHelper()
	name := fmt.Sprintf("worklease_%d", rand.Uint64())
	execOn(s.DSN(), "CREATE DATABASE "+quote(name))
	return strings.Replace(s.DSN(), "/postgres?", "/"+name+"?", 1)
}

// Stop brings the server down and returns when it is; a frozen one is thawed
// for that.
func (s *Server) Stop(mode StopMode) {
	GinkgoHelper()
	s.Thaw()
	signal := syscall.SIGINT
	if mode == Immediate {
		signal = syscall.SIGQUIT
	}
	Expect(s.cmd.Process.Signal(signal)).To(Succeed())
	select {
	case <-s.exited:
	case <-time.After(setup):
		Fail("the PostgreSQL server does not stop:\n" + s.log())
	}
}

// Start starts a stopped server again, with its data and on its port, and
// returns when it takes connections.
func (s *Server) Start() {
	GinkgoHelper()
	if err := s.start(); err != nil {
		Fail(fmt.Sprintf("the PostgreSQL server does not start: %v\n%s", err, s.log()))
	}
}

// Freeze stops every process of the server where it stands, so that
// connections stay open and nothing is answered.
func (s *Server) Freeze() {
	GinkgoHelper()
	Expect(s.freeze()).To(Succeed())
}

// Thaw lets a frozen server go on. It does nothing to one that is not frozen.
func (s *Server) Thaw() {
	GinkgoHelper()
	Expect(s.thaw()).To(Succeed())
}

// launch makes a server and starts it.
func launch(opts Options) *Server {
	GinkgoHelper()
	template, err := pristine()
	if err != nil {
		Fail(err.Error())
	}
	s, err := prepare(opts.Env)
	Expect(err).NotTo(HaveOccurred())
	Expect(run(s.command("cp", "-R", template.data(), s.data()))).To(Succeed())
	Expect(s.configure(opts)).To(Succeed())
	s.Start()
	return s
}

// pristine has a data directory that no server runs on. A copy of it takes a
// third of the time of initdb. It is held as a whole, since its leash must not be
// collected before the process ends.
var pristine = sync.OnceValues(func() (*Server, error) {
	s, err := prepare(nil)
	if err != nil {
		return nil, err
	}
	initdb := s.command(filepath.Join(s.bin, "initdb"),
		"-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	return s, run(initdb)
})

// prepare makes a server's directory and what clears it up.
func prepare(env []string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "worklease-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, env: append(environment(), env...), user: user}
	return s, errors.Join(s.keep(), user.Own(dir))
}

func (s *Server) configure(opts Options) error {
	s.port = daemon.FreePort()
	lines := []string{
		"listen_addresses = '127.0.0.1'",
		fmt.Sprintf("port = %d", s.port),
		fmt.Sprintf("unix_socket_directories = '%s'", s.dir),
		"shared_buffers = 32MB",
		"max_connections = 200",
	}
	if !opts.Durable {
		lines = append(lines, "fsync = off", "full_page_writes = off")
	}
	lines = append(lines, opts.Config...)
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer conf.Close()
	_, err = fmt.Fprintf(conf, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

// start runs the server as a child, so that its end is seen and nothing has to
// be found again by a pid file.
func (s *Server) start() error {
	logFile, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	cmd := s.command(filepath.Join(s.bin, "postgres"), "-D", s.data())
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		cmd.Wait() //nolint:errcheck // The log says more than the status.
		close(exited)
	}()
	return s.await()
}

// await returns when the server takes connections.
func (s *Server) await() error {
	db, err := sql.Open("postgres", s.DSN())
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), setup)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = s.env
	cmd.SysProcAttr = s.user.attributes()
	return cmd
}

// run runs a command to its end, and gives what it said where it failed.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-4096):])
}

// environment is the process's own without what libpq would read.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") {
			env = append(env, v)
		}
	}
	return env
}
