//go:build linux

package server

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/testkit/daemon"
)

// RedisOptions make an acknowledged write as durable as one of PostgreSQL, and
// keep the rewriting of its log out of the turns.
var RedisOptions = []string{"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0"}

// Redis is a server of redis.
type Redis struct {
	*process
	Address string
	disk    disk
	client  *redis.Client
}

// StartRedis starts one.
func StartRedis(ctx context.Context) (*Redis, error) {
	p, err := newProcess("redis")
	if err != nil {
		return nil, err
	}
	d, err := diskOf(p.dir)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(daemon.FreePort())
	r := &Redis{process: p, Address: "127.0.0.1:" + port, disk: d}
	r.client = redis.NewClient(&redis.Options{Addr: r.Address})
	ready := func(ctx context.Context) error { return r.client.Ping(ctx).Err() }
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", p.dir}, RedisOptions...)
	return r, p.start(ctx, ready, "redis-server", args...)
}

// Version returns the server's version.
func (r *Redis) Version(ctx context.Context) (string, error) {
	return r.info(ctx, "server", "redis_version")
}

// Read implements [measure.Meter]. Flushes are those of the whole disk, since
// redis does not count its own.
func (r *Redis) Read(ctx context.Context) (c measure.Cost, err error) {
	for _, counter := range []struct {
		into          *float64
		section, name string
	}{
		{&c.Statements, "stats", "total_commands_processed"},
		{&c.LogBytes, "persistence", "aof_current_size"},
	} {
		text, err := r.info(ctx, counter.section, counter.name)
		if err != nil {
			return c, err
		}
		if *counter.into, err = strconv.ParseFloat(text, 64); err != nil {
			return c, err
		}
	}
	if c.Flushes, err = r.disk.flushes(); err != nil {
		return c, err
	}
	c.CPU, err = r.cpu()
	return c, err
}

func (r *Redis) info(ctx context.Context, section, name string) (string, error) {
	text, err := r.client.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", redis.Nil
}

// Close ends the server.
func (r *Redis) Close() error {
	return errors.Join(r.client.Close(), r.process.Close())
}
