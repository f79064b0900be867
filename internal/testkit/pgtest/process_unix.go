//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// keeper clears up after a server: it waits until its standard input ends,
// which the end of this process brings about in any case, then ends what runs
// and removes the directory. A server waits up to a minute for a client that
// has connected and says nothing, hence the second signal; its processes end
// when they see that the first of them is gone.
const keeper = `
read -r _
cd "$1" || exit 0
for pid in $(cat frozen 2>/dev/null); do kill -CONT "$pid"; done
pid=$(head -n 1 data/postmaster.pid 2>/dev/null)
if [ -n "$pid" ]; then
	kill -QUIT "$pid"
	tries=0
	while kill -0 "$pid" && [ $tries -lt 30 ]; do sleep 0.1; tries=$((tries + 1)); done
	kill -KILL "$pid"
fi
cd /
rm -rf "$1"
`

// keep starts the keeper, in a process group of its own, so that a signal for
// ours does not reach it.
func (s *Server) keep() error {
	s.keeper = exec.Command("/bin/sh", "-c", keeper, "keeper", s.dir)
	s.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leash, err := s.keeper.StdinPipe()
	if err != nil {
		return err
	}
	s.leash = leash
	return s.keeper.Start()
}

// close lets the keeper clear up, in whatever state a spec left the server, and
// waits for it.
func (s *Server) close() error {
	if s.exited != nil {
		defer func() { <-s.exited }()
	}
	return errors.Join(s.leash.Close(), s.keeper.Wait())
}

// freeze begins with the postmaster, so that no further process comes up. It
// notes the processes for the keeper.
func (s *Server) freeze() error {
	postmaster := s.cmd.Process.Pid
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		return err
	}
	pids, err := children(postmaster)
	if err != nil {
		return err
	}
	pids = append(pids, postmaster)
	var list strings.Builder
	for _, pid := range pids {
		list.WriteString(strconv.Itoa(pid) + "\n")
	}
	if err := os.WriteFile(s.frozen(), []byte(list.String()), 0o600); err != nil {
		return err
	}
	return signal(pids, syscall.SIGSTOP)
}

func (s *Server) thaw() error {
	list, err := os.ReadFile(s.frozen())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var pids []int
	for _, field := range strings.Fields(string(list)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		pids = append(pids, pid)
	}
	return errors.Join(signal(pids, syscall.SIGCONT), os.Remove(s.frozen()))
}

func (s *Server) frozen() string { return filepath.Join(s.dir, "frozen") }

// signal signals those of pids that still exist.
func signal(pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// children lists the child processes of parent. The processes of a server are
// in sessions of their own, so that a signal to its group would miss them.
func children(parent int) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// account is whom a server runs as.
type account struct{ daemon.Account }

func unprivileged() (account, error) {
	a, err := daemon.Unprivileged()
	return account{a}, err
}

// attributes put the process into a group of its own, so that an interrupt from
// the keyboard leaves its end to the keeper.
func (a account) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.Credential}
}
