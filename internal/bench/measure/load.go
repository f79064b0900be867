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

// Run implements [Work]. Before time is taken every client does the work once, so
// that connections are open and statements prepared. Clients get a context that
// can end, as a caller's does.
func (l Loop) Run(ctx context.Context, clients int, length time.Duration) (Done, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := l.Open(ctx, clients)
	if err != nil {
		return Done{}, err
	}
	once := func(client int) (int, error) { return 1, session.Do(ctx, client) }
	first, _, err := together(clients, once)
	if err != nil {
		_ = session.Close() // The first error says more.
		return Done{}, err
	}

	var over atomic.Bool
	timer := time.AfterFunc(length, func() { over.Store(true) })
	defer timer.Stop()
	timed, elapsed, err := together(clients, func(client int) (n int, err error) {
		for ; !over.Load(); n++ {
			if err := session.Do(ctx, client); err != nil {
				return n, err
			}
		}
		return n, nil
	})
	if closeErr := session.Close(); err == nil {
		err = closeErr
	}
	return Done{Timed: timed, Elapsed: elapsed, All: first + timed}, err
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
