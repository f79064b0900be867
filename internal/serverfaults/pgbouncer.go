package serverfaults

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// transactionPooler starts a pgbouncer with two connections to the server of dsn,
// which it hands out by the transaction, and returns dsn through it.
func transactionPooler(dsn string) string {
	GinkgoHelper()
	binary := pgbouncer()
	host, port, err := net.SplitHostPort(address(dsn))
	Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	own := listener.Addr().(*net.TCPAddr)
	Expect(listener.Close()).To(Succeed())

	dir, err := os.MkdirTemp("", "worklease-pgbouncer-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	Expect(os.Chmod(dir, 0o755)).To(Succeed()) // it may run as somebody else
	ini := filepath.Join(dir, "pgbouncer.ini")
	Expect(os.WriteFile(ini, fmt.Appendf(nil, `
[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
`, host, port, own.Port), 0o644)).To(Succeed())

	log := gbytes.NewBuffer()
	cmd := exec.Command(binary[0], append(binary[1:], "-q", ini)...)
	cmd.Stderr = log
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	Eventually(func() error {
		conn, err := net.DialTimeout("tcp", own.String(), time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	}).WithTimeout(10*time.Second).Should(Succeed(), func() string { return "pgbouncer says: " + string(log.Contents()) })
	return through(dsn, own.String())
}

// pgbouncer is the command that runs it, which refuses to run as root.
func pgbouncer() []string {
	GinkgoHelper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		Fail("pgbouncer is not on this machine: `make postgres` installs it")
	}
	if os.Geteuid() != 0 {
		return []string{path}
	}
	return []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL", path}
}
