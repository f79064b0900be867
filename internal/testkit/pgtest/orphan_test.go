//go:build unix

package pgtest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// orphaning makes this test binary the child of a spec: it starts a server,
// tells where, and waits to be killed.
const orphaning = "WORKLEASE_PGTEST_ORPHANING"

var _ = Describe("A test process that is killed", func() {
	BeforeEach(noLeaks)

	DescribeTable("leaves neither server nor directory behind",
		func(ctx SpecContext, state string) {
			tmp := GinkgoT().TempDir()
			// The server's account must get through to its own directory.
			for dir := tmp; dir != os.TempDir(); dir = filepath.Dir(dir) {
				Expect(os.Chmod(dir, 0o755)).To(Succeed())
			}
			child := exec.CommandContext(ctx, os.Args[0], "-ginkgo.focus=child: ")
			child.Env = append(os.Environ(), orphaning+"="+state, "TMPDIR="+tmp)
			out, err := child.StdoutPipe()
			Expect(err).NotTo(HaveOccurred())
			Expect(child.Start()).To(Succeed())

			address := readAddress(bufio.NewScanner(out))
			Expect(listening(address)).To(BeTrue())
			Expect(child.Process.Kill()).To(Succeed())
			Expect(child.Wait()).NotTo(Succeed())

			Eventually(listening).WithArguments(address).Should(BeFalse())
			Eventually(func() ([]string, error) { return filepath.Glob(filepath.Join(tmp, "worklease-pg-*")) }).Should(BeEmpty())
		},
		Entry("when the server runs", "running", SpecTimeout(bound)),
		Entry("when the server is frozen", "frozen", SpecTimeout(bound)),
	)
})

func init() {
	state := os.Getenv(orphaning)
	if state == "" {
		return
	}
	Describe("child:", func() {
		It("waits to be killed", func() {
			s := pgtest.Start(pgtest.Options{})
			if state == "frozen" {
				s.Freeze()
			}
			fmt.Fprintf(os.Stdout, "\nlistening 127.0.0.1:%d\n", s.Port())
			select {}
		})
	})
}

func readAddress(lines *bufio.Scanner) string {
	GinkgoHelper()
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			return address
		}
	}
	Fail("the child has not told its address")
	return ""
}

func listening(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
