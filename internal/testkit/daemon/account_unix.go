//go:build unix

package daemon

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Account is whom a server runs as.
type Account struct {
	Credential *syscall.Credential // nil for the process's own
}

// Unprivileged finds whom to run a server as that refuses to run as root.
func Unprivileged() (Account, error) {
	if os.Geteuid() != 0 {
		return Account{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return Account{}, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return Account{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return Account{}, err
	}
	return Account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// Own gives path to the account.
func (a Account) Own(path string) error {
	if a.Credential == nil {
		return nil
	}
	return os.Chown(path, int(a.Credential.Uid), int(a.Credential.Gid))
}
