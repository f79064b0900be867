// Package child runs an example's program a second time, as somebody who is killed.
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Child is such a process. It tells what it does as events, by [Tell].
type Child[E any] struct {
	Events <-chan E // closed when it has ended

	cmd   *exec.Cmd
	ended chan error // how, once Events is closed
}

// Start starts this program with other arguments. The child ends with ctx at the
// latest.
func Start[E any](ctx context.Context, args ...string) (*Child[E], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	events := make(chan E)
	c := &Child[E]{Events: events, cmd: cmd, ended: make(chan error, 1)}
	go func() {
		defer close(events)
		for decoder := json.NewDecoder(out); ; {
			var ev E
			if decoder.Decode(&ev) != nil {
				c.ended <- cmd.Wait()
				return
			}
			events <- ev
		}
	}()
	return c, nil
}

// Pid returns the child's process ID.
func (c *Child[E]) Pid() int { return c.cmd.Process.Pid }

// Kill ends the child on the spot, by SIGKILL, which cannot be caught, and returns
// when it is gone.
func (c *Child[E]) Kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	if _, more := <-c.Events; more {
		return fmt.Errorf("process %d went on although it was killed", c.Pid())
	}
	var exit *exec.ExitError
	if err := <-c.ended; !errors.As(err, &exit) {
		return errors.Join(fmt.Errorf("process %d was to be killed but ended by itself", c.Pid()), err)
	}
	return nil
}

// Tell returns how the child tells its events to out. It exits where nobody listens
// any more.
func Tell[E any](out io.Writer) func(E) {
	encoder := json.NewEncoder(out)
	return func(ev E) {
		if err := encoder.Encode(ev); err != nil {
			os.Exit(1)
		}
	}
}
