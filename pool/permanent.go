package pool

import (
	"errors"
	"fmt"
)

// ErrAllSlotsDead is what Run returns when every slot ended with a
// PermanentError.
var ErrAllSlotsDead = errors.New("pool: every slot ended with a permanent error")

// PermanentError is an error after which a slot is not tried again. It is found
// with errors.As in what a work function returns.
type PermanentError interface {
	error
	Permanent() bool
}

// Permanent marks err as a PermanentError. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

type permanent struct{ error }

func (permanent) Permanent() bool { return true }

func (p permanent) Unwrap() error { return p.error }

func isPermanent(err error) bool {
	var p PermanentError
	return errors.As(err, &p) && p.Permanent()
}

// panicError is a panic of a work function on its way to Run's caller.
type panicError struct {
	workID string
	value  any // nil for runtime.Goexit
	goexit bool
	stack  []byte
}

func (p *panicError) Error() string {
	if p.goexit {
		return fmt.Sprintf("pool: work function of %q called runtime.Goexit", p.workID)
	}
	return fmt.Sprintf("pool: work function of %q panicked: %v\n\n%s", p.workID, p.value, p.stack)
}

// Unwrap returns the value that was panicked with where it is an error.
func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
