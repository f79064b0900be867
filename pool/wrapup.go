package pool

import (
	"context"
	"sync"
	"time"

	"github.com/aetomala/worklease/internal/tenure"
)

// wrapUp gives the final writes of slots their bound: one each while the pool
// works, and a common one on shutdown that runs from the return of the last work
// function, since thousands of slots cannot all write at once.
type wrapUp struct {
	timeout time.Duration
	stopped context.Context // ends with the pool's
	unwatch func() bool

	shared context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	running int         // work functions
	timer   *time.Timer // runs on shutdown while no work function does
}

func newWrapUp(ctx context.Context, timeout time.Duration) *wrapUp {
	if timeout <= 0 {
		timeout = tenure.DefaultCleanup
	}
	w := &wrapUp{timeout: timeout, stopped: ctx}
	w.shared, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.unwatch = context.AfterFunc(ctx, func() { w.count(0) })
	return w
}

// close ends it, when all slots have ended.
func (w *wrapUp) close() {
	w.unwatch()
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *wrapUp) enter() { w.count(1) }
func (w *wrapUp) leave() { w.count(-1) }

// count counts work functions in and out, and starts the common bound when the
// last has returned on shutdown.
func (w *wrapUp) count(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += n
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.running == 0 && w.stopped.Err() != nil {
		w.timer = time.AfterFunc(w.timeout, w.cancel)
	}
}

// cleanup is the Cleanup of the slots' tenures.
func (w *wrapUp) cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.stopped.Err() == nil {
		return context.WithTimeout(ctx, w.timeout)
	}
	// One for all, which has the values of ctx as well: contexts that end one
	// after the other would let those of the queue start calls past the bound.
	return w.shared, func() {}
}
