//go:build linux

package worker

import (
	"context"
	"time"
)

// Last acquires every ID once, reads what was left, and holds it. Those that it
// cannot acquire are missing in its log.
func Last(ctx context.Context, cfg Config) error {
	p, err := start(cfg)
	if err != nil {
		return err
	}
	defer p.db.Close()
	for n := range cfg.IDs {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		token, err := p.lease.Acquire(ctx, ID(n))
		if err != nil {
			continue
		}
		if _, err := p.lease.ReadCheckpoint(ctx, token); err != nil {
			continue
		}
	}
	return p.lease.log.Close()
}
