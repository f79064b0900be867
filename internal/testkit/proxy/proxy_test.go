package proxy_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/proxy"
)

var _ = Describe("Proxy", func() {
	var (
		e *echo
		p *proxy.Proxy
	)
	BeforeEach(func() {
		e = startEcho()
		p = proxy.Start(e.addr())
	})

	It("passes requests and replies", func(_ SpecContext) {
		Expect(dial(p).ask("hello")).To(Equal("hello"))
	}, SpecTimeout(bound))

	It("delays each direction", func(_ SpecContext) {
		c := dial(p)
		Expect(c.ask("at once")).To(Equal("at once"))

		p.Delay(100 * time.Millisecond)
		start := time.Now()
		Expect(c.ask("later")).To(Equal("later"))
		Expect(time.Since(start)).To(BeNumerically(">=", 200*time.Millisecond))
	}, SpecTimeout(bound))

	It("swallows in silence, and passes again what comes later", func(_ SpecContext) {
		c := dial(p)
		Expect(c.ask("before")).To(Equal("before"))

		p.Swallow()
		c.deadline(200 * time.Millisecond)
		_, err := c.try("lost")
		Expect(err).To(MatchError(os.ErrDeadlineExceeded))

		p.Pass()
		c.deadline(bound)
		Expect(c.ask("after")).To(Equal("after"))
		Expect(e.lines.Load()).To(BeEquivalentTo(2))
	}, SpecTimeout(bound))

	It("keeps from the client while it swallows that the server has ended", func(_ SpecContext) {
		c := dial(p)
		Expect(c.ask("before")).To(Equal("before"))

		p.Swallow()
		e.close()
		c.deadline(200 * time.Millisecond)
		_, err := c.try("lost")
		Expect(err).To(MatchError(os.ErrDeadlineExceeded))

		p.Pass()
		c.deadline(bound)
		_, err = c.read()
		Expect(err).To(MatchError(syscall.ECONNRESET))
	}, SpecTimeout(bound))

	It("silences the connections that there are for good, and no others", func(_ SpecContext) {
		c := dial(p)
		Expect(c.ask("before")).To(Equal("before"))

		p.Silence()
		p.Pass()
		Expect(dial(p).ask("anew")).To(Equal("anew"))
		c.deadline(200 * time.Millisecond)
		_, err := c.try("lost")
		Expect(err).To(MatchError(os.ErrDeadlineExceeded))
		Expect(e.lines.Load()).To(BeEquivalentTo(2))
	}, SpecTimeout(bound))

	It("resets the connections that there are, and takes new ones", func(_ SpecContext) {
		c := dial(p)
		Expect(c.ask("before")).To(Equal("before"))

		p.Reset()
		_, err := c.read()
		Expect(err).To(MatchError(syscall.ECONNRESET))
		Expect(dial(p).ask("anew")).To(Equal("anew"))
	}, SpecTimeout(bound))

	It("loses a reply after the server has seen the request", func(_ SpecContext) {
		c := dial(p)
		Expect(c.ask("before")).To(Equal("before"))

		p.LoseReplies()
		_, err := c.try("done, but unheard")
		Expect(err).To(MatchError(syscall.ECONNRESET))
		Expect(e.lines.Load()).To(BeEquivalentTo(2))
		Expect(p.Lost()).To(Equal(1))
	}, SpecTimeout(bound))

	It("closes a connection to a server that is not there", func(_ SpecContext) {
		e.close()
		_, err := dial(p).read()
		Expect(err).To(MatchError(io.EOF))
	}, SpecTimeout(bound))

	It("ends connections in every mode when it closes", func(_ SpecContext) {
		c := dial(p)
		Expect(c.ask("before")).To(Equal("before"))

		p.Swallow()
		p.Close()
		_, err := c.read()
		Expect(err).To(MatchError(syscall.ECONNRESET))
	}, SpecTimeout(bound))
})

// echo is a server that sends back each line.
type echo struct {
	listener net.Listener
	lines    atomic.Int64
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func startEcho() *echo {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	e := &echo{listener: listener}
	e.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, conn)
			e.mu.Unlock()
			e.running.Go(func() { e.serve(conn) })
		}
	})
	DeferCleanup(e.close)
	return e
}

func (e *echo) addr() string { return e.listener.Addr().String() }

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		e.lines.Add(1)
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}

func (e *echo) close() {
	e.listener.Close()
	e.mu.Lock()
	for _, conn := range e.conns {
		conn.Close()
	}
	e.mu.Unlock()
	e.running.Wait()
}

type client struct {
	conn   net.Conn
	reader *bufio.Reader
}

func dial(p *proxy.Proxy) *client {
	GinkgoHelper()
	conn, err := net.Dial("tcp", p.Addr())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	c := &client{conn, bufio.NewReader(conn)}
	c.deadline(bound)
	return c
}

func (c *client) deadline(d time.Duration) {
	GinkgoHelper()
	Expect(c.conn.SetDeadline(time.Now().Add(d))).To(Succeed())
}

func (c *client) try(line string) (string, error) {
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		return "", err
	}
	return c.read()
}

func (c *client) read() (string, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	return line[:len(line)-1], nil
}

func (c *client) ask(line string) string {
	GinkgoHelper()
	answer, err := c.try(line)
	Expect(err).NotTo(HaveOccurred())
	return answer
}
