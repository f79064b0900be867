package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// victim is a migrator at work. kill ends it on the spot and returns when it is gone;
// nothing of it is released or said goodbye to.
type victim struct {
	events <-chan event // closed when it has ended
	kill   func() error
}

// start starts a migrator: a process on PostgreSQL, a goroutine on memory.
func (s *story) start(ctx context.Context, name string, stopAt point) (victim, error) {
	if s.dsn == "" {
		return startGoroutine(ctx, migrator{name: name, ledger: s.ledger, stopAt: stopAt}, s.workID), nil
	}
	return startProcess(ctx, "-dsn", s.dsn, "-be-migrator", name, "-work", s.workID, "-stop-at", string(stopAt))
}

// startGoroutine starts m in this process. Its death is runtime.Goexit, after which
// a goroutine does no more than a killed process does.
func startGoroutine(ctx context.Context, m migrator, workID string) victim {
	events, killed := make(chan event), make(chan struct{})
	m.tell = func(ev event) { events <- ev }
	m.stop = func() {
		<-killed
		runtime.Goexit()
	}
	go func() {
		defer close(events)
		_ = m.run(ctx, workID) // what is missing of the ledger tells
	}()
	return victim{events: events, kill: func() error {
		close(killed)
		return nil
	}}
}

// startProcess starts this program a second time, as a migrator.
func startProcess(ctx context.Context, args ...string) (victim, error) {
	self, err := os.Executable()
	if err != nil {
		return victim{}, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return victim{}, err
	}
	if err := cmd.Start(); err != nil {
		return victim{}, err
	}
	events := make(chan event)
	go func() {
		defer close(events)
		for decoder := json.NewDecoder(out); ; {
			var ev event
			if decoder.Decode(&ev) != nil {
				_ = cmd.Wait() // what is missing of the ledger tells
				return
			}
			events <- ev
		}
	}()
	return victim{events: events, kill: func() error {
		if err := cmd.Process.Kill(); err != nil { // SIGKILL: it cannot be caught
			return err
		}
		if _, more := <-events; more {
			return fmt.Errorf("process %d went on although it was killed", cmd.Process.Pid)
		}
		return nil
	}}, nil
}

// beMigrator is the other side of startProcess: it tells its events as JSON, and
// waits for its end where it is told to.
func beMigrator(ctx context.Context, m migrator, workID string, out io.Writer) error {
	encoder := json.NewEncoder(out)
	m.tell = func(ev event) {
		if err := encoder.Encode(ev); err != nil {
			os.Exit(1) // the parent is gone
		}
	}
	m.stop = func() {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		os.Exit(1) // nobody killed this process
	}
	err := m.run(ctx, workID)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
