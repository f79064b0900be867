// Package wire counts the round trips that lib/pq makes.
package wire

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// Wire dials for lib/pq, whose Dialer and DialerContext it is, and counts what is
// written: once for each round trip. Its zero value is ready.
type Wire struct{ trips atomic.Int64 }

// Trips returns how many round trips were made so far.
func (w *Wire) Trips() int64 { return w.trips.Load() }

// Dial is that of net.
func (w *Wire) Dial(network, address string) (net.Conn, error) {
	return w.DialContext(context.Background(), network, address)
}

// DialTimeout is that of net.
func (w *Wire) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return w.DialContext(ctx, network, address)
}

// DialContext is that of net.Dialer.
func (w *Wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return counted{conn, w}, err
}

type counted struct {
	net.Conn
	wire *Wire
}

func (c counted) Write(p []byte) (int, error) {
	c.wire.trips.Add(1)
	return c.Conn.Write(p)
}
