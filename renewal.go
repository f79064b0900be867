package worklease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/watch"
	"github.com/aetomala/worklease/internal/window"
)

// RenewalOption changes one call of [Lease.StartRenewal].
type RenewalOption func(*pacing.Renewal)

// WithRenewalInterval sets how often the lease is renewed. Zero or less keeps the
// default of half the TTL, which is also the longest.
func WithRenewalInterval(d time.Duration) RenewalOption {
	return func(r *pacing.Renewal) {
		if d > 0 {
			r.Interval = d
		}
	}
}

// WithRenewalBackoff sets how a failed renewal is retried: after initial, then
// after twice as long each time up to maximum, each wait spread by up to the
// share jitter of itself. The defaults are 100 ms, 5 s and 0.20. Nothing is
// refused: a duration of zero or less keeps its default, maximum is at least
// initial, and jitter lies between 0 and 1.
func WithRenewalBackoff(initial, maximum time.Duration, jitter float64) RenewalOption {
	return func(r *pacing.Renewal) {
		r.Backoff = pacing.Backoff{Initial: initial, Max: maximum, Jitter: jitter}.Clamped()
	}
}

type renewalKey struct{}

// LeaseWindow returns until when the lease of a renewal context may be relied
// on: deadline moves on with every successful renewal, checkpoint or direct
// Renew, and never exceeds the true expiry while clocks run at the same rate.
// ctx is what [Lease.StartRenewal] returned, or derived from it.
//
// ok is false outside a renewal context, once it is done, and from the deadline
// on. After the renewal was stopped the deadline stands still.
func LeaseWindow(ctx context.Context) (deadline time.Time, ok bool) {
	r, _ := ctx.Value(renewalKey{}).(*renewal)
	if r == nil || r.ctx.Err() != nil {
		return time.Time{}, false
	}
	deadline = r.deadline()
	if !time.Now().Before(deadline) {
		return time.Time{}, false
	}
	return deadline, true
}

// minReplyBound is the least time that an attempt is given to answer.
const minReplyBound = 100 * time.Millisecond

// maxCalls bounds the calls of one renewal that have not come back.
const maxCalls = 2

// renewal keeps one lease renewed.
type renewal struct {
	lease    *lease
	token    Token
	window   *window.Window
	watch    *watch.Watch // nil outside a run
	interval time.Duration
	backoff  pacing.Backoff

	ctx    context.Context // the renewal context
	cancel context.CancelCauseFunc

	// life ends when the renewal does, for whatever reason; the calls run on it.
	// Outside a run it ends with ctx as well, inside one only with the run.
	life context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	lastErr error       // of the last attempt; nil when it succeeded
	closing *time.Timer // closes the window; nil once the renewal has ended
	stopped time.Time   // the deadline at the stop; zero before
}

// renewCall is one call of Renew under way, or its answer.
type renewCall struct {
	start time.Time
	err   error
}

func (l *lease) StartRenewal(ctx context.Context, token Token, opts ...RenewalOption) (context.Context, func()) {
	cfg := pacing.Renewal{Backoff: pacing.DefaultBackoff()}
	for _, opt := range opts {
		if opt != nil {
			opt(&cfg)
		}
	}
	if cfg.Interval <= 0 || cfg.Interval > l.ttl/2 {
		cfg.Interval = l.ttl / 2
	}
	r := &renewal{lease: l, token: token, window: token.window, interval: cfg.Interval, backoff: cfg.Backoff}
	renewCtx, cancel := context.WithCancelCause(ctx)
	r.ctx, r.cancel = context.WithValue(renewCtx, renewalKey{}, r), cancel
	if token.window == nil { // the zero Token
		cancel(ErrFenced)
		return r.ctx, func() {}
	}

	base := r.ctx
	if r.watch = watch.Attach(ctx, token, r.window.Open); r.watch != nil {
		base = context.WithoutCancel(base)
	}
	r.life, r.end = context.WithCancel(base)

	r.mu.Lock()
	r.closing = time.AfterFunc(time.Until(r.window.Deadline()), r.close)
	r.mu.Unlock()
	go r.run()
	return r.ctx, r.stop
}

// run renews until life ends. Whoever ends it, a stop, the window, a verdict or
// the context, does not wait for it; a call in flight may outlive it, and its
// answer is dropped.
func (r *renewal) run() {
	defer r.finish()
	var (
		replies  = make(chan *renewCall, maxCalls)
		current  *renewCall // the call whose answer counts as the attempt's
		out      int        // calls that have not come back
		failures int        // in a row
		timer    = time.NewTimer(time.Until(r.window.Due(r.interval)))
	)
	defer timer.Stop()

	attempt := func() {
		current = &renewCall{start: time.Now()}
		out++
		go r.call(current, replies)
		timer.Reset(max(r.lease.ttl/4, minReplyBound))
	}
	failed := func(err error) {
		start := current.start
		current = nil
		failures++
		r.note(err)
		r.report(start, failures, err)
		wait := r.backoff.Wait(failures)
		timer.Reset(min(wait, time.Until(r.window.Deadline())))
	}

	for due := false; ; {
		select {
		case <-r.life.Done():
			return
		case <-timer.C:
			switch {
			case r.life.Err() != nil:
				return
			case !r.window.Open():
				// Its own timer ends life; nothing is sent any more.
			case current != nil:
				failed(fmt.Errorf("no reply within %v", time.Since(current.start)))
			case out < maxCalls:
				attempt()
			default:
				due = true
			}
		case c := <-replies:
			out--
			if r.life.Err() != nil {
				return
			}
			switch {
			case errors.Is(c.err, ErrFenced) || errors.Is(c.err, ErrLeaseExpired):
				r.report(c.start, failures+1, c.err)
				r.lose(verdict(c.err))
				return
			case c == current && c.err != nil:
				failed(c.err)
			case c == current:
				current = nil
				r.report(c.start, failures+1, nil)
				failures = 0
				timer.Reset(time.Until(c.start.Add(r.interval)))
			case c.err == nil:
				failures = 0 // late, and already reported as failed
			}
			if due && current == nil && r.window.Open() {
				due = false
				attempt()
			}
		}
	}
}

// call makes one call. It moves the window itself, so that no observer can hold
// that up. The channel has room for every call that can be out.
func (r *renewal) call(c *renewCall, replies chan<- *renewCall) {
	c.err = r.lease.backend.Renew(r.life, r.token.record, r.lease.ttl)
	if c.err == nil {
		r.window.Extend(c.start, r.lease.ttl)
		r.note(nil)
	}
	replies <- c
}

// report tells the observer of an attempt.
func (r *renewal) report(start time.Time, attempt int, err error) {
	took := time.Since(start)
	err = r.lease.wrapFor("Renew", r.token, err)
	r.lease.observer.OnRenew(r.ctx, RenewEvent{Token: r.token, Attempt: attempt, Duration: took, Err: err})
	r.lease.noteFenced(r.ctx, r.token, OperationRenew, err)
}

// verdict returns the cause for a lease that the backend called lost.
func verdict(err error) error {
	if errors.Is(err, ErrFenced) {
		return ErrFenced
	}
	return fmt.Errorf("%w: %w", ErrLeaseWindowExhausted, err)
}

// close ends the renewal when the window closes. It runs on the window's own
// timer, so that neither a slow observer nor a call that hangs can hold it up.
func (r *renewal) close() {
	r.mu.Lock()
	if r.closing == nil {
		r.mu.Unlock()
		return
	}
	if left := time.Until(r.window.Deadline()); left > 0 {
		r.closing.Reset(left)
		r.mu.Unlock()
		return
	}
	cause := ErrLeaseWindowExhausted
	if r.lastErr != nil {
		cause = fmt.Errorf("%w: last renewal: %w", cause, r.lastErr)
	}
	r.mu.Unlock()
	r.lose(cause)
}

// lose cancels the renewal context because the lease is lost, unless the renewal
// was stopped before.
func (r *renewal) lose(cause error) {
	r.mu.Lock()
	if r.closing != nil {
		if r.watch != nil {
			r.watch.Lose(cause)
		}
		r.cancel(cause)
	}
	r.mu.Unlock()
	r.finish()
}

// stop ends the renewal because its caller wants no more of it.
func (r *renewal) stop() {
	r.mu.Lock()
	if r.stopped.IsZero() {
		r.stopped = r.window.Deadline()
	}
	r.mu.Unlock()
	r.finish()
}

// finish ends life and the window's timer. It may be called more than once.
func (r *renewal) finish() {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing != nil {
		r.closing.Stop()
		r.closing = nil
	}
}

// note keeps how the last attempt went, for the cause.
func (r *renewal) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastErr = err
}

// deadline returns the window's, or where it stood at the stop.
func (r *renewal) deadline() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped.IsZero() {
		return r.stopped
	}
	return r.window.Deadline()
}
