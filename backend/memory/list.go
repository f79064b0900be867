package memory

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aetomala/worklease/backend"
)

// List implements [backend.Lister], in the order of the work IDs' bytes.
func (b *Backend) List(ctx context.Context, opts backend.ListOptions) iter.Seq2[backend.LeaseInfo, error] {
	return func(yield func(backend.LeaseInfo, error) bool) {
		err := opts.Validate()
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			for _, id := range b.workIDs(opts.WorkIDPrefix) {
				if err = ctx.Err(); err != nil {
					break
				}
				if info, ok := b.info(id, opts); ok && !yield(info, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(backend.LeaseInfo{}, fmt.Errorf("memory: List: %w", err))
		}
	}
}

// workIDs returns those that begin with prefix, sorted.
func (b *Backend) workIDs(prefix string) []string {
	b.mu.Lock()
	ids := make([]string, 0, len(b.rows))
	for id := range b.rows {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	b.mu.Unlock()
	slices.Sort(ids)
	return ids
}

// info returns the lease on workID where it is there and opts select it.
func (b *Backend) info(workID string, opts backend.ListOptions) (backend.LeaseInfo, bool) {
	b.mu.Lock()
	r := b.rows[workID]
	if r == nil {
		b.mu.Unlock()
		return backend.LeaseInfo{}, false
	}
	info := backend.LeaseInfo{
		WorkID:       workID,
		HolderID:     r.holder,
		FencingToken: r.token,
		ExpiresAt:    r.expires,
		Live:         r.live(b.clock.Now()),
		Exit:         r.exit,
		PrevExit:     r.prevExit,
		PrevHolderID: r.prevHolder,
		StateSize:    len(r.state),
		AcquiredAt:   r.acquired,
		UpdatedAt:    r.updated,
	}
	state := r.state
	b.mu.Unlock()

	if !info.Live && info.Exit == backend.ExitNone {
		info.Exit = backend.ExitExpired
	}
	selected := (opts.Live == opts.Lapsed || opts.Live == info.Live) &&
		(opts.HolderID == "" || opts.HolderID == info.HolderID) &&
		(opts.Exit == backend.ExitNone || opts.Exit == info.Exit)
	if selected && opts.State {
		info.State = clone(state)
	}
	return info, selected
}
