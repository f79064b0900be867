//go:build linux

// Package server runs the stores that are compared, each as a process of its own
// on loopback, in a throwaway directory, from the system's packages.
package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// startup bounds how long a store may take until it answers.
const startup = time.Minute

// process is a store that runs. It dies with the thread that started it.
type process struct {
	dir        string
	credential *syscall.Credential // nil for our own user
	log        *os.File
	cmd        *exec.Cmd
}

// newProcess makes a directory for a store, of a user who is not root, whom
// PostgreSQL would refuse.
func newProcess(name string) (*process, error) {
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "worklease-bench-"+name+"-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, credential: credential}
	if credential != nil {
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, err
		}
	}
	p.log, err = os.Create(filepath.Join(dir, "log"))
	return p, err
}

// start runs the store and returns once it answers.
func (p *process) start(ctx context.Context, ready func(context.Context) error, binary string, args ...string) error {
	p.cmd = p.command(binary, args...)
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", binary, err, p.said())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// command prepares one that runs as the store's user, in its directory.
func (p *process) command(binary string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

// Close ends the store and removes its directory.
func (p *process) Close() error {
	if p.cmd != nil && p.cmd.Process != nil {
		if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		_ = p.cmd.Wait() // ended by our signal
	}
	p.log.Close()
	return os.RemoveAll(p.dir)
}

// said returns the end of what the store logged.
func (p *process) said() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}

// unprivileged finds whom to run a store as.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// freePort finds a port below the range that the kernel hands to clients.
func freePort() int {
	for {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return port
		}
	}
}
