//go:build linux

package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aetomala/worklease/internal/bench/plan"
)

// peerModules are the modules whose versions the report tells, by what it calls
// them.
var peerModules = []Version{
	{"lib/pq", "github.com/lib/pq"},
	{"pgx", "github.com/jackc/pgx/v5"},
	{"River", "github.com/riverqueue/river"},
	{"DBOS Transact", "github.com/dbos-inc/dbos-transact-golang"},
	{"etcd client", "go.etcd.io/etcd/client/v3"},
	{"redislock", "github.com/bsm/redislock"},
	{"go-redis", "github.com/redis/go-redis/v9"},
}

// Look finds out where and on what a run is made.
func Look(ctx context.Context, s *plan.Servers, rounds int, length time.Duration) (About, error) {
	args := append([]string{"bench"}, os.Args[1:]...)
	a := About{Date: time.Now().UTC().Format(time.DateOnly), Command: strings.Join(args, " "), Rounds: rounds, Length: length}
	a.Versions = append(a.Versions, Version{"Go", runtime.Version()})
	for _, from := range []struct {
		name    string
		version func(context.Context) (string, error)
	}{{"PostgreSQL", s.Postgres.Version}, {"etcd", s.Etcd.Version}, {"redis", s.Redis.Version}} {
		version, err := from.version(ctx)
		if err != nil {
			return a, err
		}
		a.Versions = append(a.Versions, Version{from.name, version})
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, want := range peerModules {
			for _, dep := range info.Deps {
				if dep.Path == want.Version {
					a.Versions = append(a.Versions, Version{want.Name, dep.Version})
				}
			}
		}
	}
	a.Machine = fmt.Sprintf("%d cores, %s", runtime.NumCPU(), firstOf("/proc/cpuinfo", "model name"))
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return a, err
	}
	a.Kernel = "Linux " + string(bytes.TrimSpace(release))
	return a, nil
}

// After says how long the run took that began at start.
func (a About) After(start time.Time) About {
	a.Took = time.Since(start).Round(time.Second)
	return a
}

// firstOf returns the first value of a name in a file of "name : value" lines.
func firstOf(file, name string) string {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}
