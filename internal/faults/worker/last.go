//go:build linux

package worker

import (
	"context"
	"time"
)

// Last acquires every ID once, the ledgers' too, reads what was left, and holds it.
// Those that it cannot acquire are missing in its log.
func Last(ctx context.Context, cfg Config) error {
	p, err := start(cfg)
	if err != nil {
		return err
	}
	defer p.db.Close()
	for n := range cfg.IDs {
		p.last(ctx, ID(n))
	}
	for n := range cfg.Ledgers {
		p.last(ctx, Ledger(n))
	}
	return p.lease.log.Close()
}

// last does not fail: the log tells how it went.
func (p *process) last(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if token, err := p.lease.Acquire(ctx, id); err == nil {
		_, _ = p.lease.ReadCheckpoint(ctx, token)
	}
}
