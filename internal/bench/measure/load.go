package measure

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Session is work with its connections open.
type Session struct {
	Do    func(ctx context.Context, client int) error // once, for a client from 0 on
	Close func() error
}

// Loop is [Work] that this process does itself, each client again and again.
type Loop struct {
	Ready func(ctx context.Context) error // what Prepare does
	Open  func(ctx context.Context, clients int) (Session, error)
}

// Prepare implements [Work].
func (l Loop) Prepare(ctx context.Context) error { return l.Ready(ctx) }

// Run implements [Work]. For a quarter of length the clients work before time is
// taken, so that connections are open, statements prepared and the server's sessions
// warm. Clients get a context that can end, as a caller's does.
func (l Loop) Run(ctx context.Context, clients int, length time.Duration) (Done, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := l.Open(ctx, clients)
	if err != nil {
		return Done{}, err
	}
	warm, _, err := session.work(ctx, clients, length/4)
	if err != nil {
		_ = session.Close() // The first error says more.
		return Done{}, err
	}
	timed, elapsed, err := session.work(ctx, clients, length)
	if closeErr := session.Close(); err == nil {
		err = closeErr
	}
	return Done{Timed: timed, Elapsed: elapsed, All: warm + timed}, err
}

// work lets all clients work for so long, each at least once.
func (s Session) work(ctx context.Context, clients int, length time.Duration) (int, time.Duration, error) {
	var over atomic.Bool
	timer := time.AfterFunc(length, func() { over.Store(true) })
	defer timer.Stop()
	return together(clients, func(client int) (n int, err error) {
		for {
			if err := s.Do(ctx, client); err != nil {
				return n, err
			}
			n++
			if over.Load() {
				return n, nil
			}
		}
	})
}

// together lets all clients work and returns how often they did and the first
// error.
func together(clients int, work func(client int) (int, error)) (int, time.Duration, error) {
	var (
		wg    sync.WaitGroup
		total atomic.Int64
		once  sync.Once
		first error
		start = time.Now()
	)
	for client := range clients {
		wg.Go(func() {
			n, err := work(client)
			total.Add(int64(n))
			if err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	wg.Wait()
	return int(total.Load()), time.Since(start), first
}
