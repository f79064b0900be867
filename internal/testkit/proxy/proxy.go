// Package proxy stands between a client and a TCP server and does to their
// connections what networks do.
//
// A proxy forwards in both directions until it is told otherwise. What it is
// told holds for the connections that there are as well as for later ones:
//
//	p := proxy.Start("127.0.0.1:5432")
//	p.Swallow()     // as if packets were dropped: nothing arrives, nothing ends
//	p.Pass()        // forwards again, for connections that are still whole
//	p.LoseReplies() // requests arrive; the first answer cuts the connection
//
// It is for use inside Ginkgo nodes and closes with the node that started it.
package proxy

import (
	"net"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// mode is what the proxy does with the bytes it has read.
type mode int

const (
	pass mode = iota
	swallow
	loseReplies
)

// Proxy forwards TCP connections to one server. Its methods may be called from
// several goroutines.
type Proxy struct {
	server   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	mode    mode
	delay   time.Duration
	changed chan struct{} // closed when mode or delay change
	links   map[*link]struct{}
	closed  bool
	lost    int
}

// link is one client's connection and ours to the server for it.
type link struct {
	client, server net.Conn
	ended          chan struct{} // closed by cut
	once           sync.Once
	silent         bool // for good; under the proxy's lock
}

// cut ends a link. With a linger of zero the peers see a reset, not an end.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.ended)
		for _, c := range []net.Conn{l.client, l.server} {
			if tcp, ok := c.(*net.TCPConn); ok {
				tcp.SetLinger(0) //nolint:errcheck // The connection may have ended by itself.
			}
			c.Close()
		}
	})
}

// Start starts a proxy on a port of 127.0.0.1 for the server at that address.
func Start(server string) *Proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &Proxy{
		server: server, listener: listener,
		changed: make(chan struct{}), links: make(map[*link]struct{}),
	}
	p.running.Go(p.accept)
	DeferCleanup(p.Close)
	return p
}

// Addr is the address to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Pass forwards everything at once. What was swallowed stays lost.
func (p *Proxy) Pass() { p.set(pass, 0) }

// Delay forwards everything, d later in each direction.
func (p *Proxy) Delay(d time.Duration) { p.set(pass, d) }

// Swallow forwards nothing and ends nothing: each side sees a peer that has
// fallen silent. New connections are accepted.
func (p *Proxy) Swallow() { p.set(swallow, 0) }

// Silence swallows on the connections that there are, for good, as a router does
// that has forgotten them. New ones go by what else the proxy is told.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent = true
	}
}

// LoseReplies forwards what clients send, and resets a connection as soon as
// the server answers on it, so that the server has done what the client never
// hears of.
func (p *Proxy) LoseReplies() { p.set(loseReplies, 0) }

// Lost counts the connections that LoseReplies has reset.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Reset resets every connection that there is. New ones are accepted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Close resets every connection, stops listening and returns when no goroutine
// of the proxy is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Reset()
	p.running.Wait()
}

func (p *Proxy) set(m mode, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.delay = m, delay
	close(p.changed)
	p.changed = make(chan struct{})
}

// accept ends with the listener.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve forwards for one client until either side ends.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close()
		return
	}
	l := &link{client: client, server: server, ended: make(chan struct{})}
	defer l.cut()
	if !p.add(l) {
		return
	}
	defer p.remove(l)

	var both sync.WaitGroup
	both.Go(func() { p.forward(l, client, server, false) })
	both.Go(func() { p.forward(l, server, client, true) })
	both.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// forward copies one direction of a link. What it has read when the mode
// changes goes by the new one.
func (p *Proxy) forward(l *link, from, to net.Conn, reply bool) {
	defer l.cut()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			p.hold(l)
			return
		}
		if !p.deliver(l, to, buffer[:n], reply) {
			return
		}
	}
}

// deliver does with data what the mode says, and reports whether the link goes
// on.
func (p *Proxy) deliver(l *link, to net.Conn, data []byte, reply bool) bool {
	p.mu.Lock()
	m, delay := p.mode, p.delay
	if l.silent {
		m = swallow
	}
	if m == loseReplies && reply {
		p.lost++
	}
	p.mu.Unlock()

	switch {
	case m == swallow:
		return true
	case m == loseReplies && reply:
		return false
	case delay > 0:
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.ended:
			return false
		}
	}
	_, err := to.Write(data)
	return err == nil
}

// hold keeps the end of one side from the other while packets are swallowed.
func (p *Proxy) hold(l *link) {
	for {
		p.mu.Lock()
		m, changed := p.mode, p.changed
		silent := l.silent
		p.mu.Unlock()
		if m != swallow && !silent {
			return
		}
		select {
		case <-changed:
		case <-l.ended:
			return
		}
	}
}
