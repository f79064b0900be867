package postgres_test

import (
	"bytes"
	"database/sql"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/lib/pq"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/wire"
)

// line is the network between lib/pq and the server. It counts what is sent and
// can lose a reply.
type line struct {
	mu   sync.Mutex
	sent [][]byte
	cut  *cut
	on   func(n int, message []byte)
}

// cut is a reply to lose: of the next message of a kind that holds a text.
type cut struct {
	kind byte
	text string
	err  error // what the driver reads in place of the reply
}

// errReset is not taken for a bad connection by lib/pq, so that database/sql does
// not send again; the end of a connection, io.EOF, is.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// The kinds of messages (PostgreSQL, "Message Formats").
const (
	bind  = 'B'
	query = 'Q'
)

// openLine opens the database of dsn over a line.
func openLine(dsn string) (*line, *sql.DB) {
	GinkgoHelper()
	l := &line{}
	connector, err := pq.NewConnector(dsn)
	Expect(err).NotTo(HaveOccurred())
	connector.Dialer(wire.Dialer(func(conn net.Conn) net.Conn { return &end{Conn: conn, line: l} }))
	over := sql.OpenDB(connector)
	DeferCleanup(over.Close)
	return l, over
}

// lose makes the server execute the next message of kind that holds text, and
// the driver read err in place of the reply.
func (l *line) lose(kind byte, text string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = &cut{kind, text, err}
}

// watch calls fn with each message that is sent from now on and its number.
func (l *line) watch(fn func(n int, message []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.on = nil, fn
}

// count returns how many messages of kind that hold text were sent.
func (l *line) count(kind byte, text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, message := range l.sent {
		if is(message, kind, text) {
			n++
		}
	}
	return n
}

// trips returns how many writes there were: lib/pq makes one for each round trip.
func (l *line) trips() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent)
}

func is(message []byte, kind byte, text string) bool {
	return len(message) > 0 && message[0] == kind && bytes.Contains(message, []byte(text))
}

// note records a message and returns what its reply is to be replaced with.
func (l *line) note(message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, bytes.Clone(message))
	if l.on != nil {
		l.on(len(l.sent), message)
	}
	if l.cut == nil || !is(message, l.cut.kind, l.cut.text) {
		return nil
	}
	err := l.cut.err
	l.cut = nil
	return err
}

// end is one connection's.
type end struct {
	net.Conn
	line *line

	mu   sync.Mutex
	lost error
}

func (e *end) Write(p []byte) (int, error) {
	err := e.line.note(p)
	e.mu.Lock()
	e.lost = err
	e.mu.Unlock()
	return e.Conn.Write(p)
}

func (e *end) Read(p []byte) (int, error) {
	e.mu.Lock()
	lost := e.lost
	e.mu.Unlock()
	if lost == nil {
		return e.Conn.Read(p)
	}
	// The server has executed the message once it says that it is ready again.
	var reply []byte
	for buf := make([]byte, 4096); !bytes.Contains(reply, []byte("Z\x00\x00\x00\x05")); {
		n, err := e.Conn.Read(buf)
		if err != nil {
			return 0, err
		}
		reply = append(reply, buf[:n]...)
	}
	_ = e.Conn.Close()
	return 0, lost
}

var _ io.ReadWriter = (*end)(nil)
