package pgtest

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// errNoServer is what a suite fails with on a machine without PostgreSQL.
var errNoServer = errors.New("no PostgreSQL server: run `make postgres`, which installs one, or set " + EnvDSN)

// usual are the places where packages put the server, which is not on the PATH
// of most of them.
var usual = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/usr/local/pgsql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// binaries finds the directory that holds initdb and postgres: that of
// [EnvBin], else the one on the PATH, else the newest of the usual places.
func binaries() (string, error) {
	if dir := os.Getenv(EnvBin); dir != "" {
		if !complete(dir) {
			return "", errors.New(EnvBin + ": no initdb and postgres in " + dir)
		}
		return dir, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil && complete(filepath.Dir(path)) {
		return filepath.Dir(path), nil
	}
	var found []string
	for _, pattern := range usual {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		found = append(found, matches...)
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return !complete(dir) })
	if len(found) == 0 {
		return "", errNoServer
	}
	return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) }), nil
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

var number = regexp.MustCompile(`\d+`)

// version reads the major version out of a directory's name.
func version(dir string) int {
	n, err := strconv.Atoi(number.FindString(dir))
	if err != nil {
		return 0
	}
	return n
}
