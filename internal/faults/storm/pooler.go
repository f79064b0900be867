//go:build linux

package storm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// pooler is a pgbouncer between the links and the server. It hands out fewer
// connections than the processes have, by the transaction.
type pooler struct {
	port int
	end  context.CancelFunc
	done chan struct{}
}

// startPooler starts one in the run's directory.
func startPooler(ctx context.Context, s *server, dir string) (*pooler, error) {
	binary, err := exec.LookPath("pgbouncer")
	if err != nil {
		binary, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		return nil, errors.New("storm: no pgbouncer: run `make postgres`")
	}
	p := &pooler{port: daemon.FreePort(), done: make(chan struct{})}
	ini := filepath.Join(dir, "pgbouncer.ini")
	err = os.WriteFile(ini, fmt.Appendf(nil, `
[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 12
max_client_conn = 1000
server_login_retry = 1
log_connections = 0
log_disconnections = 0
ignore_startup_parameters = extra_float_digits
`, s.port, p.port), 0o644)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "pgbouncer.log"))
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	p.end = end
	go p.keep(ctx, log, func() *exec.Cmd {
		running := exec.CommandContext(ctx, binary, ini)
		running.Stdout, running.Stderr = log, log
		running.SysProcAttr = &syscall.SysProcAttr{Credential: s.account.Credential, Setpgid: true, Pdeathsig: syscall.SIGKILL}
		return running
	})
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // no spec
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
		if err == nil {
			return p, conn.Close()
		}
		if time.Since(began) > 10*time.Second {
			p.stop()
			return nil, fmt.Errorf("storm: pgbouncer does not start: %w (see %s)", err, log.Name())
		}
	}
}

// keep starts pgbouncer again whenever it ends: 1.18 does so by itself, at a cancel
// request (bad client state). To the workers that is one fault more.
func (p *pooler) keep(ctx context.Context, log *os.File, command func() *exec.Cmd) {
	runtime.LockOSThread() // whose end Pdeathsig means
	defer close(p.done)
	defer log.Close()
	for ctx.Err() == nil {
		if err := command().Run(); ctx.Err() == nil {
			fmt.Fprintln(log, "ended:", err)
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // no spec
	}
}

func (p *pooler) stop() {
	p.end()
	<-p.done
}
