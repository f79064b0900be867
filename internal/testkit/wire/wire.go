// Package wire stands between lib/pq and the network.
package wire

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// Dialer dials for lib/pq, whose Dialer and DialerContext it is, and returns what it
// makes of each connection.
type Dialer func(net.Conn) net.Conn

// Dial is that of net.
func (d Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout is that of net.
func (d Dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext is that of net.Dialer.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return d(conn), nil
}

// Wire counts what is written: once for each round trip that lib/pq makes. Its zero
// value is ready.
type Wire struct{ trips atomic.Int64 }

// Trips returns how many round trips were made so far.
func (w *Wire) Trips() int64 { return w.trips.Load() }

// Dialer returns the dialer of the connections that w counts on.
func (w *Wire) Dialer() Dialer {
	return func(conn net.Conn) net.Conn { return counted{conn, w} }
}

type counted struct {
	net.Conn
	wire *Wire
}

func (c counted) Write(p []byte) (int, error) {
	c.wire.trips.Add(1)
	return c.Conn.Write(p)
}
