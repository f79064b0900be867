package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease/backend"
)

// Cable is a backend at the far end of a network cable that can be pulled out, so
// that an example can show how the process at this end is cut off. It forwards no
// optional interface.
type Cable struct {
	backend.Backend
	pulled atomic.Bool
}

var errNoRoute = errors.New("no route to the database")

// Pull cuts the process off. Every call but Forget and Sweep fails from now on.
func (c *Cable) Pull() { c.pulled.Store(true) }

func (c *Cable) check() error {
	if c.pulled.Load() {
		return errNoRoute
	}
	return nil
}

// Acquire fails when the cable is out.
func (c *Cable) Acquire(ctx context.Context, workID, holderID string, ttl time.Duration) (backend.LeaseRecord, error) {
	if err := c.check(); err != nil {
		return backend.LeaseRecord{}, err
	}
	return c.Backend.Acquire(ctx, workID, holderID, ttl)
}

// Checkpoint fails when the cable is out.
func (c *Cable) Checkpoint(ctx context.Context, record backend.LeaseRecord, state []byte, ttl time.Duration) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.Backend.Checkpoint(ctx, record, state, ttl)
}

// Renew fails when the cable is out.
func (c *Cable) Renew(ctx context.Context, record backend.LeaseRecord, ttl time.Duration) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.Backend.Renew(ctx, record, ttl)
}

// Release fails when the cable is out.
func (c *Cable) Release(ctx context.Context, record backend.LeaseRecord, mode backend.ExitMode) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.Backend.Release(ctx, record, mode)
}

// ReadCheckpoint fails when the cable is out.
func (c *Cable) ReadCheckpoint(ctx context.Context, record backend.LeaseRecord) (backend.Checkpoint, error) {
	if err := c.check(); err != nil {
		return backend.Checkpoint{}, err
	}
	return c.Backend.ReadCheckpoint(ctx, record)
}
