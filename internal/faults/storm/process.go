//go:build linux

package storm

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// process is the place of one worker: when its process is killed, another takes
// its place under another name.
type process struct {
	config  Config
	number  int
	dsn     string // through a proxy of its own
	started int    // processes so far
	running *exec.Cmd
	stdin   io.WriteCloser
	frozen  time.Time // zero when it is not
}

// start starts the next process.
func (p *process) start() error {
	p.started++
	holder := fmt.Sprintf("p%d-%d", p.number, p.started)
	driver, dsn := p.config.Drivers[p.number%len(p.config.Drivers)], p.dsn
	if p.config.Pooler && driver == "pgx" {
		dsn += "&default_query_exec_mode=exec" // for statements that are not the library's
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	output, err := os.OpenFile(filepath.Join(p.config.Dir, "workers.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	p.running = exec.Command(self, "worker",
		"-driver", driver, "-dsn", dsn, "-holder", holder, "-dir", p.config.logs(),
		"-ids", strconv.Itoa(p.config.IDs), "-slots", strconv.Itoa(p.config.Slots), "-ttl", p.config.TTL.String(),
		"-seed", strconv.FormatUint(p.config.Seed+uint64(p.number)<<32+uint64(p.started), 10),
		"-notify="+strconv.FormatBool(p.config.Notify),
		"-ledgers", strconv.Itoa(p.config.Ledgers), "-pooler="+strconv.FormatBool(p.config.Pooler))
	p.running.Stdout, p.running.Stderr = output, output
	p.running.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.stdin, err = p.running.StdinPipe(); err != nil {
		return err
	}
	return p.running.Start()
}

// kill kills the process without warning.
func (p *process) kill() error {
	p.frozen = time.Time{}
	if err := p.running.Process.Kill(); err != nil {
		return err
	}
	err := p.running.Wait()
	if status, ok := p.running.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("storm: worker %d had ended by itself: %w", p.number, err)
	}
	return nil
}

// freeze stops the process where it stands.
func (p *process) freeze() error {
	if !p.frozen.IsZero() {
		return nil
	}
	p.frozen = time.Now()
	return p.running.Process.Signal(syscall.SIGSTOP)
}

// thaw lets the process go on, and says for how long it was frozen.
func (p *process) thaw() (time.Duration, error) {
	if p.frozen.IsZero() {
		return 0, nil // it was killed meanwhile
	}
	frozen := time.Since(p.frozen)
	p.frozen = time.Time{}
	return frozen, p.running.Process.Signal(syscall.SIGCONT)
}

// exhaust makes the process take every connection of its pool.
func (p *process) exhaust(d time.Duration) error {
	_, err := fmt.Fprintf(p.stdin, "exhaust %v\n", d)
	return err
}

// stop asks the process to end, and waits for that.
func (p *process) stop() error {
	_ = p.stdin.Close() // it may have ended by itself, as Wait tells
	late := time.AfterFunc(10*p.config.TTL+10*time.Second, func() { _ = p.running.Process.Kill() })
	defer late.Stop()
	if err := p.running.Wait(); err != nil {
		return fmt.Errorf("storm: worker %d did not end well: %w", p.number, err)
	}
	return nil
}
