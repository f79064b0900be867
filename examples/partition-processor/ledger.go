package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// ledger is where the processes of the story write their events. It takes each
// once, in order, which is what makes an event that comes twice harmless.
type ledger struct {
	mu      sync.Mutex
	last    map[string]int // event, by partition
	changed chan struct{}  // closed and replaced at every write
	workers map[string]int // events, by process
}

func newLedger() *ledger {
	return &ledger{last: map[string]int{}, workers: map[string]int{}, changed: make(chan struct{})}
}

// write takes event, ignores one that it has, and refuses one that leaves another
// out.
func (l *ledger) write(process, partition string, event int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last[partition]
	if event > last+1 {
		return fmt.Errorf("%s: event %d of %s after %d", process, event, partition, last)
	}
	l.last[partition] = max(last, event)
	l.workers[process]++
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// look returns copies of how far the partitions are and how much each process
// did, and a channel that is closed when that has changed.
func (l *ledger) look() (last, workers map[string]int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.last), maps.Clone(l.workers), l.changed
}

// until waits until the ledger satisfies enough.
func (l *ledger) until(ctx context.Context, enough func(last, workers map[string]int) bool) error {
	for {
		last, workers, changed := l.look()
		if enough(last, workers) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited too long: %w", ctx.Err())
		}
	}
}

// check compares the ledger with the checkpoints.
func (l *ledger) check(stored map[string]int) error {
	last, _, _ := l.look()
	if !maps.Equal(last, stored) {
		return fmt.Errorf("the checkpoints say %v, the ledger %v", stored, last)
	}
	return nil
}
