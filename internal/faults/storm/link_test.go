//go:build linux

package storm

import (
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestStorm(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Storm")
}

// answer is how the server of these specs answers everything: as PostgreSQL ends
// an answer.
var answer = string(readyForQuery) + "I"

var _ = Describe("A link", func() {
	var (
		l        *link
		requests chan string // what the server has heard
	)

	BeforeEach(func() {
		requests = make(chan string, 100)
		server, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		go func() {
			for {
				conn, err := server.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					buffer := make([]byte, 100)
					for {
						n, err := conn.Read(buffer)
						if err != nil {
							return
						}
						requests <- string(buffer[:n])
						if _, err := io.WriteString(conn, answer); err != nil {
							return
						}
					}
				}()
			}
		}()
		l, err = newLink(server.Addr().(*net.TCPAddr).Port)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(l.close)
	})

	dial := func() net.Conn {
		GinkgoHelper()
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port())))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		Expect(conn.SetDeadline(time.Now().Add(10 * time.Second))).To(Succeed())
		return conn
	}
	ask := func(conn net.Conn, request string) error {
		GinkgoHelper()
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, len(answer)))
		return err
	}

	It("passes both ways", func() {
		conn := dial()
		Expect(ask(conn, "startup")).To(Succeed())
		Expect(ask(conn, "Bind")).To(Succeed())
		Expect(l.lost()).To(BeZero())
	})

	It("loses the reply to an execution with its connection, and to nothing else", func() {
		conn := dial()
		Expect(l.loseReplies()).To(Succeed())
		Expect(ask(conn, "startup")).To(Succeed())
		Expect(ask(conn, "Parse")).To(Succeed())
		Expect(ask(conn, "Bind")).NotTo(Succeed())
		for _, request := range []string{"startup", "Parse", "Bind"} {
			Expect(requests).To(Receive(Equal(request)))
		}
		Expect(l.lost()).To(Equal(1))
		Expect(l.heal()).To(Succeed())
		Expect(ask(dial(), "startup")).To(Succeed())
	})

	It("resets connections, old and new, until it heals", func() {
		conn := dial()
		Expect(ask(conn, "startup")).To(Succeed())
		Expect(l.reset()).To(Succeed())
		Expect(ask(conn, "Bind")).NotTo(Succeed())
		Expect(ask(dial(), "startup")).NotTo(Succeed())
		Expect(l.heal()).To(Succeed())
		Expect(ask(dial(), "startup")).To(Succeed())
	})

	It("swallows without a word, and resets what lost something when it heals", func() {
		conn, idle := dial(), dial()
		Expect(ask(conn, "startup")).To(Succeed())
		Expect(ask(idle, "startup")).To(Succeed())
		Expect(l.swallow()).To(Succeed())
		lost := make(chan error, 1)
		go func() { lost <- ask(conn, "Bind") }()
		Consistently(lost).WithTimeout(200 * time.Millisecond).ShouldNot(Receive())
		Expect(l.heal()).To(Succeed())
		Eventually(lost).WithTimeout(10 * time.Second).Should(Receive(HaveOccurred()))
		Expect(ask(idle, "Bind")).To(Succeed())
		Expect(requests).To(HaveLen(3))
	})

	It("delays each packet", func() {
		conn := dial()
		Expect(l.delay(100 * time.Millisecond)).To(Succeed())
		start := time.Now()
		Expect(ask(conn, "startup")).To(Succeed())
		Expect(time.Since(start)).To(BeNumerically(">=", 200*time.Millisecond))
	})
})
