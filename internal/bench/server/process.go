//go:build linux

// Package server runs the stores that are compared, each as a process of its own
// on loopback, in a throwaway directory, from the system's packages.
package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// startup bounds how long a store may take until it answers.
const startup = time.Minute

// process is a store that runs. It dies with the thread that started it.
type process struct {
	dir     string
	account daemon.Account
	log     *os.File
	cmd     *exec.Cmd
}

// newProcess makes a directory for a store, of a user who is not root, whom
// PostgreSQL would refuse.
func newProcess(name string) (*process, error) {
	account, err := daemon.Unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "worklease-bench-"+name+"-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, account: account}
	if err := account.Own(dir); err != nil {
		return nil, err
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.account.Credential, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
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
