// Package leader lets one process at a time run a function: a scheduler, a
// controller, a singleton.
//
// # Guarantees
//
// The function runs under a renewed lease; its context ends when leadership is
// lost. A process calls [Elect] in a loop: followers do not spin against the
// backend.
//
// # Not guaranteed
//
// A leader that lost its lease learns of it when its window closes at the
// latest, and then still has to stop: effects outside the lease store are not
// fenced.
package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/pacing"
	"github.com/aetomala/worklease/internal/tenure"
)

var (
	// ErrLeaseRequired says that the lease is nil. It matches
	// worklease.ErrConfigInvalid.
	ErrLeaseRequired = fmt.Errorf("leader: lease is nil: %w", worklease.ErrConfigInvalid)

	// ErrFnRequired says that the function is nil. It matches
	// worklease.ErrConfigInvalid.
	ErrFnRequired = fmt.Errorf("leader: fn is nil: %w", worklease.ErrConfigInvalid)
)

// Config configures [Elect]. Its zero value is ready.
//
// The callbacks run on Elect's goroutine with the ctx given to Elect; nil ones are
// skipped, and none runs when the acquisition failed.
type Config struct {
	// AcquireOptions are those of the acquisition. With
	// worklease.WithWaitForLease Elect blocks until it leads.
	AcquireOptions []worklease.AcquireOption
	RenewalOptions []worklease.RenewalOption

	// IdleInterval, and up to a fifth more, is how long Elect waits before it
	// returns worklease.ErrLeaseHeld. Meanwhile it tries again when the lease lapses
	// or the backend tells that it may have been freed. Zero or less: 1 s.
	IdleInterval time.Duration

	// BackoffInterval is how long Elect waits before it returns any other error
	// of the acquisition, and after every term that did not end fenced, a clean
	// one included. Zero or less: no wait at all, so a loop that retries on
	// every error must set it.
	BackoffInterval time.Duration

	// CleanupTimeout bounds the release, from the return of fn on. Zero or less:
	// 5 s.
	CleanupTimeout time.Duration

	// OnElected runs after the acquisition and before fn.
	OnElected func(ctx context.Context, token worklease.Token)

	// OnLost runs after fn when the lease was fenced or its window ran out while
	// ctx was alive.
	OnLost func(ctx context.Context, token worklease.Token)

	// OnRelinquished runs after a release as finished or retired was recorded.
	OnRelinquished func(ctx context.Context, token worklease.Token)
}

// defaultIdle paces followers.
const defaultIdle = time.Second

// idleJitter spreads followers that were told at the same moment.
const idleJitter = 0.20

// Elect tries to lead workID and, if it succeeds, runs fn for one term. It reads and
// writes no checkpoint.
//
// The ctx of fn ends with ctx or with the lease; its cause then is
// worklease.ErrFenced or worklease.ErrLeaseWindowExhausted, and fn should return
// soon. While fn winds down after the end of ctx, the lease stays renewed. Elect
// blocks until fn has returned, the lease is released (for at most
// CleanupTimeout) and the pacing of [Config] has passed. When ctx ends, no more
// of the pacing is waited for.
//
//	fn returned                   released as  Elect returns
//	nil                           finished     nil
//	an error wrapping ErrRetire   retired      nil
//	any other error               abandoned    that error
//	ErrFenced, or lease fenced    -            ErrFenced
//	lease window ran out          -            the error joined with
//	                                           ErrLeaseWindowExhausted
//
// Errors: worklease.ErrLeaseHeld while somebody else leads; [ErrLeaseRequired]
// and [ErrFnRequired]; a failed release joined to what there was; any other
// error of the acquisition. When ctx ends before fn was entered, it is not, and
// the lease goes back as it was found. A panic in fn goes on up with the renewal
// stopped: the next leader waits for the TTL.
func Elect(ctx context.Context, lease worklease.Lease, workID string, cfg Config, fn func(ctx context.Context) error) error {
	var problems []error
	if lease == nil {
		problems = append(problems, ErrLeaseRequired)
	}
	if fn == nil {
		problems = append(problems, ErrFnRequired)
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}

	terms := tenure.Terms{
		Package:        "leader",
		Lease:          lease,
		AcquireOptions: cfg.AcquireOptions,
		RenewalOptions: cfg.RenewalOptions,
		Stateless:      true,
		Idle:           cfg.idle,
		Cleanup:        tenure.CleanupWithin(cfg.CleanupTimeout),
	}
	term := terms.Run(ctx, workID, func(termCtx context.Context, token worklease.Token, _ worklease.Checkpoint) ([]byte, error) {
		call(ctx, cfg.OnElected, token)
		return nil, fn(termCtx)
	})

	switch term.Outcome {
	case tenure.Finished, tenure.Retired:
		call(ctx, cfg.OnRelinquished, term.Token)
	case tenure.Fenced, tenure.Exhausted:
		if ctx.Err() == nil {
			call(ctx, cfg.OnLost, term.Token)
		}
	}
	_ = pacing.Sleep(ctx, cfg.pause(term)) // cut short: the error stays
	return term.Err
}

func call(ctx context.Context, callback func(context.Context, worklease.Token), token worklease.Token) {
	if callback != nil {
		callback(ctx, token)
	}
}

// pause returns how long to wait after term.
func (c *Config) pause(term tenure.Result) time.Duration {
	switch {
	case term.Outcome == tenure.Fenced:
		return 0
	case term.Outcome == tenure.NotAcquired && errors.Is(term.Err, worklease.ErrLeaseHeld):
		return 0 // it was idle already
	default:
		return max(c.BackoffInterval, 0)
	}
}

func (c *Config) idle() time.Duration {
	idle := c.IdleInterval
	if idle <= 0 {
		idle = defaultIdle
	}
	return pacing.Jittered(idle, idleJitter)
}
