package memory

import (
	"context"
	"fmt"

	"github.com/aetomala/worklease/backend"
)

// ForceRelease implements [backend.ForceReleaser].
func (b *Backend) ForceRelease(ctx context.Context, workID string, token uint64) error {
	err := b.forceRelease(ctx, workID, token)
	if err != nil {
		err = fmt.Errorf("memory: ForceRelease: workID=%q token=%d: %w", workID, token, err)
	}
	return err
}

func (b *Backend) forceRelease(ctx context.Context, workID string, token uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	r := b.rows[workID]
	switch {
	case r == nil || r.token != token:
		return backend.ErrFenced
	case r.exit != backend.ExitNone:
		return backend.ErrLeaseExpired
	}
	b.token++
	r.token = b.token
	r.free(b.clock.Now())
	b.waiters.Wake(workID)
	return nil
}
