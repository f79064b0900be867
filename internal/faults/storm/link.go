//go:build linux

package storm

import (
	"bytes"
	"net"
	"strconv"
	"sync"
	"time"
)

// link is the network between one worker and the server.
type link struct {
	listener net.Listener
	server   string
	pumps    sync.WaitGroup

	mu    sync.Mutex
	mode  mode
	late  time.Duration // with the mode delaying
	lines map[*line]bool
	cut   int // replies that were lost
}

type mode int

const (
	passing    mode = iota
	refusing        // connections are reset
	swallowing      // packets vanish
	delaying
	losing // the reply to an execution is lost, with its connection
)

// line is one connection through the link.
type line struct {
	client, server net.Conn
	closed         chan struct{}

	// Under the link's lock:
	torn  bool // bytes are missing, so it cannot go on
	ready bool // the session has begun
	last  byte // the type of the last message that the client's packet began with
}

// newLink opens a link to the server's port.
func newLink(port int) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{
		listener: listener,
		server:   net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		lines:    map[*line]bool{},
	}
	l.pumps.Go(l.accept)
	return l, nil
}

func (l *link) port() int { return l.listener.Addr().(*net.TCPAddr).Port }

// lost returns how many replies were lost after the server had executed.
func (l *link) lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// The faults. Each lasts until the next one or heal.

func (l *link) reset() error       { return l.become(refusing, func(*line) bool { return true }) }
func (l *link) swallow() error     { return l.become(swallowing, nil) }
func (l *link) loseReplies() error { return l.become(losing, nil) }

func (l *link) delay(late time.Duration) error {
	l.mu.Lock()
	l.late = late
	l.mu.Unlock()
	return l.become(delaying, nil)
}

// heal lets packets pass. Connections that lost some are reset, as when a peer
// hears again of one that it has given up.
func (l *link) heal() error { return l.become(passing, func(c *line) bool { return c.torn }) }

func (l *link) become(m mode, doomed func(*line) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = m
	for c := range l.lines {
		if doomed != nil && doomed(c) {
			l.drop(c)
		}
	}
	return nil
}

// close ends all connections and waits for them.
func (l *link) close() {
	l.listener.Close()
	l.reset() //nolint:errcheck // It has none.
	l.pumps.Wait()
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.pumps.Go(func() { l.connect(client) })
	}
}

func (l *link) connect(client net.Conn) {
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		abort(client)
		return
	}
	c := &line{client: client, server: server, closed: make(chan struct{})}
	l.mu.Lock()
	l.lines[c] = true
	if l.mode == refusing {
		l.drop(c)
	}
	l.mu.Unlock()
	l.pumps.Go(func() { l.pump(c, server, client, l.request) })
	l.pumps.Go(func() { l.pump(c, client, server, l.reply) })
}

// drop resets both ends. The lock is held.
func (l *link) drop(c *line) {
	if l.lines[c] {
		delete(l.lines, c)
		close(c.closed)
		abort(c.client)
		abort(c.server)
	}
}

// abort closes with a reset.
func abort(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0) //nolint:errcheck // It is closed in any case.
	c.Close()
}

// pump carries bytes one way. look says what becomes of a packet.
func (l *link) pump(c *line, to, from net.Conn, look func(*line, []byte) fate) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			packet := buffer[:n]
			l.mu.Lock()
			f := look(c, packet)
			late := l.late
			l.mu.Unlock()
			switch f {
			case vanishes:
				continue
			case cuts:
				l.mu.Lock()
				l.drop(c)
				l.mu.Unlock()
				return
			case waits:
				select {
				case <-time.After(late):
				case <-c.closed:
					return
				}
			}
			if _, failed := to.Write(packet); failed != nil {
				err = failed
			}
		}
		if err != nil {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(c)
}

// fate is what becomes of a packet.
type fate int

const (
	passes fate = iota
	waits
	vanishes
	cuts // with its connection
)

func (l *link) common(c *line) fate {
	switch {
	case c.torn, l.mode == swallowing:
		c.torn = true
		return vanishes
	case l.mode == delaying:
		return waits
	}
	return passes
}

// request looks at a packet to the server.
func (l *link) request(c *line, packet []byte) fate {
	c.last = packet[0]
	return l.common(c)
}

// readyForQuery ends every answer of a PostgreSQL server (PostgreSQL, "Message
// Formats"), but for its last byte.
var readyForQuery = []byte{'Z', 0, 0, 0, 5}

// reply looks at a packet to the client.
func (l *link) reply(c *line, packet []byte) fate {
	executed := c.last == 'B' && c.ready // Bind, with Execute and Sync behind it
	if n := len(packet); n >= 6 && bytes.Equal(packet[n-6:n-1], readyForQuery) {
		c.ready = true
	}
	if l.mode == losing && executed && !c.torn {
		l.cut++
		return cuts
	}
	return l.common(c)
}
