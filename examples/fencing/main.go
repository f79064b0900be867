// Fencing protects a table of one's own with the fencing token of a lease.
//
// A lease tells a holder when to stop, but a holder that was paused, by its
// garbage collector or its hypervisor, learns of it late: its write may already be
// on the way. A store that remembers the highest token it has seen refuses such a
// write. In SQL:
//
//	UPDATE accounts SET balance = $3, last_token = $1
//	WHERE id = $2 AND last_token <= $1
//
// No row updated means that somebody with a newer token was here. "<=" and not
// "<", since one holder writes more than once under its token.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
)

// errSuperseded is what a write gets that comes from a holder of the past.
var errSuperseded = errors.New("a newer holder has written: nothing changed")

// accounts is the table, in memory here.
type accounts struct {
	mu   sync.Mutex
	rows map[string]account
}

type account struct {
	balance   int
	lastToken uint64
}

// set is the UPDATE above.
func (a *accounts) set(token worklease.Token, id string, balance int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rows[id].lastToken > token.FencingToken() {
		return errSuperseded
	}
	a.rows[id] = account{balance: balance, lastToken: token.FencingToken()}
	return nil
}

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	const ttl = time.Second
	table := &accounts{rows: map[string]account{}}
	store := memory.New()
	a, err := worklease.New(store, worklease.Config{TTL: ttl, HolderID: "worker-a"})
	if err != nil {
		return err
	}
	b, err := worklease.New(store, worklease.Config{TTL: ttl, HolderID: "worker-b"})
	if err != nil {
		return err
	}

	tokenA, err := a.Acquire(ctx, "interest:2026-10")
	if err != nil {
		return err
	}
	if err = table.set(tokenA, "alice", 100); err != nil {
		return err
	}
	fmt.Printf("worker-a, token %d, sets the balance to 100, then freezes\n", tokenA.FencingToken())

	tokenB, err := b.Acquire(ctx, "interest:2026-10", worklease.WithWaitForLease(), worklease.WithPollInterval(100*time.Millisecond))
	if err != nil {
		return err
	}
	if err = table.set(tokenB, "alice", 105); err != nil {
		return err
	}
	fmt.Printf("worker-b, token %d, takes over and sets it to 105\n", tokenB.FencingToken())

	fmt.Println("worker-a thaws, and does not know yet that it lost the lease")
	err = table.set(tokenA, "alice", 101)
	if !errors.Is(err, errSuperseded) {
		return errors.Join(errors.New("the late write was not refused"), err)
	}
	fmt.Printf("worker-a, token %d, sets it to 101: %v\n", tokenA.FencingToken(), err)

	err = a.Checkpoint(ctx, tokenA, []byte("done"))
	if !errors.Is(err, worklease.ErrFenced) {
		return errors.Join(errors.New("the late checkpoint was not fenced"), err)
	}
	fmt.Println("worker-a wants to checkpoint, and learns that it was fenced")
	fmt.Println("balance:", table.rows["alice"].balance)
	return nil
}
