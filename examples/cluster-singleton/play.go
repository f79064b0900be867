package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/examples/internal/store"
)

// play tells the story on b.
func (s stage) play(ctx context.Context, b backend.Backend) error {
	fmt.Printf("Three nodes, one scheduler, a lease of %v.\n\n", ttl)

	stop1 := s.start(ctx, node{name: "node-1"}, &store.Cable{Backend: b})
	err := s.until(ctx, "node-1 runs job 3")
	cable2 := &store.Cable{Backend: b}
	stop2 := s.start(ctx, node{name: "node-2"}, cable2)
	err = errors.Join(err, s.until(ctx, "node-2 stands by, node-1 leads"))

	fmt.Println("\n(node-1 is stopped: its lease is free at once)")
	err = errors.Join(err, stop1(), s.until(ctx, "node-2 runs job 3"))

	fmt.Println("\n(node-2 is cut off from the database: its lease has to lapse)")
	cable2.Pull()
	err = errors.Join(err, s.until(ctx, "node-2 has lost the lease"))

	// Quiet, since the database may give node-2 a moment more than it gives itself.
	stop3 := s.start(ctx, node{name: "node-3", quiet: true}, &store.Cable{Backend: b})
	err = errors.Join(err, s.until(ctx, "node-3 runs job 3"))
	return errors.Join(err, stop2(), stop3())
}
