package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/aetomala/worklease/examples/internal/child"
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
	c, err := child.Start[event](ctx, "-dsn", s.dsn, "-be-migrator", name, "-work", s.workID, "-stop-at", string(stopAt))
	if err != nil {
		return victim{}, err
	}
	return victim{events: c.Events, kill: c.Kill}, nil
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

// beMigrator is the migrator as a process, which waits for its end where it is told
// to.
func beMigrator(ctx context.Context, m migrator, workID string, out io.Writer) error {
	m.tell = child.Tell[event](out)
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
