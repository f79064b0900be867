//go:build linux

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// Etcd is a cluster of one member. It syncs each proposal to disk, always.
type Etcd struct {
	*process
	URL string
}

// StartEtcd starts one.
func StartEtcd(ctx context.Context) (*Etcd, error) {
	p, err := newProcess("etcd")
	if err != nil {
		return nil, err
	}
	e := &Etcd{p, fmt.Sprintf("http://127.0.0.1:%d", daemon.FreePort())}
	peer := fmt.Sprintf("http://127.0.0.1:%d", daemon.FreePort())
	ready := func(ctx context.Context) error {
		_, err := e.get(ctx, "/health")
		return err
	}
	return e, p.start(ctx, ready, "etcd", "--data-dir", p.dir+"/data", "--log-level", "error",
		"--listen-client-urls", e.URL, "--advertise-client-urls", e.URL,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
}

// Version returns the server's version.
func (e *Etcd) Version(ctx context.Context) (string, error) {
	text, err := e.get(ctx, "/version")
	if err != nil {
		return "", err
	}
	var version struct{ EtcdServer string }
	return version.EtcdServer, json.Unmarshal([]byte(text), &version)
}

// Read implements [measure.Meter], from what the server says of itself under
// /metrics.
func (e *Etcd) Read(ctx context.Context) (c measure.Cost, err error) {
	text, err := e.get(ctx, "/metrics")
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		var into *float64
		switch {
		case !found:
			continue
		case strings.HasPrefix(name, "grpc_server_handled_total{"):
			into = &c.Statements
		case name == "etcd_disk_wal_write_bytes_total":
			into = &c.LogBytes
		case name == "etcd_disk_wal_fsync_duration_seconds_count":
			into = &c.Flushes
		default:
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return c, err
		}
		*into += n
	}
	c.CPU, err = e.cpu()
	return c, err
}

func (e *Etcd) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	var text strings.Builder
	_, err = bufio.NewReader(response.Body).WriteTo(&text)
	return text.String(), err
}
