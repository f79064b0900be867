// Cluster-singleton keeps one scheduler running in a cluster of nodes, whatever
// happens to the node that runs it.
//
// The program plays three nodes: one leads and is stopped in good order, the one
// that stood by takes over and is cut off from the database, and a third takes
// over when the lease has lapsed. To see it with real processes, start several
// of these and stop them as you like:
//
//	go run ./examples/cluster-singleton -dsn 'postgres://localhost/test?sslmode=disable' -node a
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aetomala/worklease/examples/internal/store"
)

func main() {
	log.SetFlags(log.Ltime)
	dsn := flag.String("dsn", "", "PostgreSQL database to use; empty: in memory")
	name := flag.String("node", "", "be this node of a real cluster; empty: play three")
	flag.Parse()
	if *name != "" && *dsn == "" {
		log.Fatal("-node needs -dsn: a store in memory is this process's alone")
	}
	if err := run(*dsn, *name); err != nil {
		log.Fatal(err)
	}
}

func run(dsn, name string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, closeStore, err := store.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if name != "" {
		n := node{name: name, say: func(line string) { log.Print(line) }}
		return n.run(ctx, b)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s := stage{lines: make(chan string)}
	return s.play(ctx, b)
}

// stage plays the nodes and prints what they say, in the order in which they say
// it.
type stage struct{ lines chan string }

// start starts a node and returns what stops it.
func (s stage) start(ctx context.Context, n node, b *store.Cable) (stop func() error) {
	n.say = func(line string) {
		select {
		case s.lines <- line:
		case <-ctx.Done():
		}
	}
	nodeCtx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.run(nodeCtx, b) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// until prints lines up to and with the one given.
func (s stage) until(ctx context.Context, last string) error {
	for {
		select {
		case line := <-s.lines:
			fmt.Println(line)
			if line == last {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("nobody said %q: %w", last, ctx.Err())
		}
	}
}
