package wake

import "sync"

// Board keeps who waits for which lease, for a [backend.Notifier]. The zero value is
// ready. It is safe for concurrent use and never blocks.
type Board struct {
	mu      sync.Mutex
	waiting map[string]map[chan int]bool
	total   int
}

// Subscribe is that of [backend.Notifier].
func (b *Board) Subscribe(workID string) (free <-chan int, stop func()) {
	told := make(chan int, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[string]map[chan int]bool{}
	}
	if b.waiting[workID] == nil {
		b.waiting[workID] = map[chan int]bool{}
	}
	b.waiting[workID][told] = true
	b.total++
	return told, func() { b.stop(workID, told) }
}

func (b *Board) stop(workID string, told chan int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.waiting[workID]
	if !all[told] {
		return
	}
	delete(all, told)
	b.total--
	if len(all) == 0 {
		delete(b.waiting, workID)
	}
}

// Waiting reports whether anybody waits for workID.
func (b *Board) Waiting(workID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting[workID]) > 0
}

// Wake tells those who wait for workID.
func (b *Board) Wake(workID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.waiting[workID]
	tell(all, len(all))
}

// WakeAll tells everybody.
func (b *Board) WakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range b.waiting {
		tell(all, b.total)
	}
}

// tell does not wait for one who has not heard the last word yet: it will try
// again anyway.
func tell(all map[chan int]bool, n int) {
	for told := range all {
		select {
		case told <- n:
		default:
		}
	}
}
