// Package gate bounds how many callers are inside something at once.
package gate

import (
	"context"
	"slices"
	"sync"
)

// Gate lets a fixed number of callers in. Those who wait enter in the order in
// which they came, the urgent ones before all others. It is safe for concurrent
// use.
type Gate struct {
	mu     sync.Mutex
	free   int
	urgent []chan struct{}
	normal []chan struct{}
}

// New returns a Gate for n callers at once.
func New(n int) *Gate { return &Gate{free: n} }

// Enter waits for a place, until ctx ends: then it returns ctx.Err(). Who entered
// must Leave.
func (g *Gate) Enter(ctx context.Context, urgent bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	queue := g.queue(urgent)
	turn := make(chan struct{})
	*queue = append(*queue, turn)
	g.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(*queue, turn)
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // its turn came at the same moment
		g.Leave()
	}
	return ctx.Err()
}

// Leave gives a place back.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, urgent := range []bool{true, false} {
		if queue := g.queue(urgent); len(*queue) > 0 {
			close((*queue)[0])
			*queue = (*queue)[1:]
			return
		}
	}
	g.free++
}

func (g *Gate) queue(urgent bool) *[]chan struct{} {
	if urgent {
		return &g.urgent
	}
	return &g.normal
}
