// Package wake paces the attempts at a lease that somebody else holds. Polls are
// what counts; between two of them a hint can ask for one more attempt.
package wake

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aetomala/worklease/backend"
)

const (
	// lapseJitter spreads those who were told the same moment for the end of a
	// lease. It leaves a takeover 100 ms of the 200 ms after it that are promised.
	lapseJitter = 100 * time.Millisecond

	// each is the time for one attempt of those who are woken together.
	each = time.Millisecond
)

// Until waits for the moment of the next poll, or less where a hint comes before:
// the lease, which an attempt has just found held as refused says, lapses unless it
// is renewed, or free tells that it may be free. It reports whether it was a hint.
//
// The poll's moment stays whatever comes before it, so that nobody waits longer
// because of a hint that was wrong. When ctx ends, Until returns ctx.Err().
func Until(ctx context.Context, poll time.Time, refused error, free <-chan int) (hinted bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	at := poll
	sooner := func(t time.Time) bool {
		if !t.Before(at) {
			return false
		}
		at, hinted = t, true
		return true
	}
	var held *backend.HeldError
	if errors.As(refused, &held) && held.Remaining > 0 {
		sooner(time.Now().Add(held.Remaining).Add(rand.N(lapseJitter)))
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return hinted, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case n := <-free:
			if sooner(time.Now().Add(spread(n))) {
				timer.Reset(time.Until(at))
			}
			free = nil // one is enough
		}
	}
}

// spread draws how long one of n who are woken together waits: nothing where it is
// alone.
func spread(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return rand.N(time.Duration(n) * each)
}
