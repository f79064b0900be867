package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/bounded"
)

// ForceRelease implements [backend.ForceReleaser].
func (b *Backend) ForceRelease(ctx context.Context, workID string, token uint64) error {
	err := bounded.Do(ctx, func(ctx context.Context) error { return b.forceRelease(ctx, workID, token) })
	if err != nil {
		err = fmt.Errorf("postgres: ForceRelease: workID=%q token=%d: %w", workID, token, err)
	}
	return err
}

func (b *Backend) forceRelease(ctx context.Context, workID string, token uint64) error {
	if err := alone(ctx); err != nil {
		return err
	}
	if token > math.MaxInt64 {
		return backend.ErrFenced
	}
	resent, err := b.row(ctx, force, []any{workID, int64(token)})
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	s, err := b.why(ctx, workID)
	switch {
	case err != nil:
		return err
	case !s.found || uint64(s.token) != token:
		if resent {
			return nil // by our first send, or without us: the holder is fenced
		}
		return backend.ErrFenced
	case s.exit != "":
		return backend.ErrLeaseExpired
	default:
		return b.explain(ctx, errUnexplained)
	}
}
