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

	"github.com/aetomala/worklease/backend"
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
	self, err := os.Executable()
	if err != nil {
		return victim{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-dsn", dsn, "-be-worker-a", workID)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return victim{}, err
	}
	if err := cmd.Start(); err != nil {
		return victim{}, err
	}
	fmt.Printf("%s  is process %d\n", workerA, cmd.Process.Pid)

	events := make(chan event)
	go func() {
		defer close(events)
		for decoder := json.NewDecoder(out); ; {
			var ev event
			if decoder.Decode(&ev) != nil {
				return // the process is gone
			}
			events <- ev
		}
	}()
	return victim{events: events, kill: func() error {
		if err := cmd.Process.Kill(); err != nil { // SIGKILL: it cannot be caught
			return err
		}
		for range events { // until the pipe is closed, as Wait asks for
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			return errors.Join(fmt.Errorf("%s was to be killed but ended by itself", workerA), err)
		}
		return nil
	}}, nil
}

// beWorkerA is the other side of startProcess: it tells its events as JSON, and
// waits in the middle of a step for its end.
func beWorkerA(ctx context.Context, b backend.Backend, workID string, out io.Writer) error {
	encoder := json.NewEncoder(out)
	a := employee{
		name: workerA,
		tell: func(ev event) {
			if err := encoder.Encode(ev); err != nil {
				os.Exit(1) // the parent is gone
			}
		},
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
