package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/examples/internal/child"
)

const (
	workerA = "worker-a"
	workerB = "worker-b"

	// fatal is the step in the middle of which worker A dies.
	fatal = 4
)

// victim is worker A at work. kill ends it on the spot and returns when it is
// gone; nothing of it is released or said goodbye to.
type victim struct {
	events <-chan event
	kill   func() error
}

// startGoroutine starts worker A in this process. Its death is runtime.Goexit,
// after which a goroutine does no more than a killed process does.
func startGoroutine(ctx context.Context, b backend.Backend, workID string) victim {
	events, killed, gone := make(chan event), make(chan struct{}), make(chan struct{})
	a := employee{
		name: workerA,
		tell: func(ev event) { events <- ev },
		during: func(ctx context.Context, step int) error {
			if step == fatal {
				<-killed
				runtime.Goexit()
			}
			return nil
		},
	}
	go func() {
		defer close(gone)
		defer close(events)
		// It never returns; if it does, the missing events tell.
		_ = a.run(ctx, b, workID)
	}()
	return victim{events: events, kill: func() error {
		close(killed)
		<-gone
		return nil
	}}
}

// startProcess starts this program a second time as worker A.
func startProcess(ctx context.Context, dsn, workID string) (victim, error) {
	c, err := child.Start[event](ctx, "-dsn", dsn, "-be-worker-a", workID)
	if err != nil {
		return victim{}, err
	}
	fmt.Printf("%s  is process %d\n", workerA, c.Pid())
	return victim{events: c.Events, kill: c.Kill}, nil
}

// beWorkerA is worker A as a process, which waits in the middle of a step for its end.
func beWorkerA(ctx context.Context, b backend.Backend, workID string, out io.Writer) error {
	a := employee{
		name: workerA,
		tell: child.Tell[event](out),
		during: func(ctx context.Context, step int) error {
			if step < fatal {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				return errors.New("nobody killed this process")
			}
		},
	}
	return a.run(ctx, b, workID)
}
