// Package pacing says how long to wait before the next attempt.
package pacing

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Sleep waits for d or until ctx ends, and returns ctx.Err() in the latter case.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Poll draws a wait evenly from half to the whole of interval, so that waiters
// which started together spread over the interval.
func Poll(interval time.Duration) time.Duration {
	half := interval / 2
	return half + rand.N(interval-half+1)
}

// Jittered returns d plus up to a share of it, drawn evenly.
func Jittered(d time.Duration, share float64) time.Duration {
	spread := time.Duration(share * rand.Float64() * float64(d))
	return d + min(spread, math.MaxInt64-d)
}

// The backoff that renewal and cleanup follow unless told otherwise.
const (
	DefaultInitial = 100 * time.Millisecond
	DefaultMax     = 5 * time.Second
	DefaultJitter  = 0.20
)

// Backoff grows from Initial by doubling up to Max, each wait spread by up to
// Jitter of itself in either direction and never above Max.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
	Jitter  float64 // 0 to 1
}

// DefaultBackoff returns the backoff of the constants above.
func DefaultBackoff() Backoff {
	return Backoff{Initial: DefaultInitial, Max: DefaultMax, Jitter: DefaultJitter}
}

// longest bounds Max. Nobody means more, and arithmetic on it cannot overflow.
const longest = 24 * time.Hour

// Clamped returns b within its bounds: a non-positive Initial or Max is the
// default, Max is at least Initial and at most a day, and Jitter lies between 0
// and 1.
func (b Backoff) Clamped() Backoff {
	if b.Initial <= 0 {
		b.Initial = DefaultInitial
	}
	if b.Max <= 0 {
		b.Max = DefaultMax
	}
	b.Initial = min(b.Initial, longest)
	b.Max = min(max(b.Max, b.Initial), longest)
	if !(b.Jitter > 0) { // NaN too
		b.Jitter = 0
	}
	b.Jitter = min(b.Jitter, 1)
	return b
}

// Wait returns the wait after the n-th failure in a row, counted from 1.
func (b Backoff) Wait(n int) time.Duration {
	d := b.Initial
	for ; n > 1 && d < b.Max; n-- {
		d *= 2
	}
	d = min(d, b.Max)
	spread := b.Jitter * (2*rand.Float64() - 1)
	return min(d+time.Duration(spread*float64(d)), b.Max)
}

// Renewal is how a lease is renewed. It is what the options of StartRenewal fill
// in.
type Renewal struct {
	Interval time.Duration // 0: half of the TTL
	Backoff  Backoff
}
