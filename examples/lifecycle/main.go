// Lifecycle walks through the life of a lease by hand: refused, waited for,
// renewed, handed over, and lost. Packages worker, leader and pool do all of this
// for you.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
)

const (
	work = "reindex:products"
	ttl  = 2 * time.Second
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	if len(os.Args) > 1 {
		return fmt.Errorf("%q: this takes no arguments", os.Args[1:])
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := memory.New()
	alice, renewals, err := newLease(b, "alice")
	if err != nil {
		return err
	}
	bob, _, err := newLease(b, "bob")
	if err != nil {
		return err
	}
	tokenA, err := alice.Acquire(ctx, work)
	if err != nil {
		return err
	}
	fmt.Println("alice acquires:", tokenA)
	if err = refused(ctx, bob); err != nil {
		return err
	}
	tokenB, err := handOver(ctx, alice, bob, tokenA, renewals)
	if err != nil {
		return err
	}
	return lose(ctx, bob, tokenB)
}

// renewals tells of the renewals of a Lease.
type renewals struct {
	worklease.NoopObserver
	done chan time.Time
}

func (r renewals) OnRenew(_ context.Context, e worklease.RenewEvent) {
	if e.Err != nil {
		return
	}
	select {
	case r.done <- time.Now():
	default: // an observer must not block: nobody is interested now
	}
}

func newLease(b backend.Backend, holder string) (worklease.Lease, renewals, error) {
	r := renewals{done: make(chan time.Time)}
	lease, err := worklease.New(b, worklease.Config{TTL: ttl, HolderID: holder, Observer: r})
	return lease, r, err
}

// refused shows what somebody gets who does not want to wait, or not for long.
func refused(ctx context.Context, bob worklease.Lease) error {
	_, err := bob.Acquire(ctx, work)
	var held *worklease.HeldError
	if !errors.As(err, &held) {
		return fmt.Errorf("a held lease: %w", err)
	}
	fmt.Printf("bob is refused: %s has it for another %v\n", held.HolderID, held.Remaining.Round(time.Second))

	patience, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = bob.Acquire(patience, work, worklease.WithWaitForLease(), worklease.WithPollInterval(50*time.Millisecond))
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a wait that is over: %w", err)
	}
	fmt.Println("bob waits for 200ms and gives up: the error is his context's, and no longer ErrLeaseHeld:",
		!errors.Is(err, worklease.ErrLeaseHeld))
	return nil
}

// handOver keeps alice's lease renewed for longer than its TTL while bob waits,
// then releases it.
func handOver(ctx context.Context, alice, bob worklease.Lease, tokenA worklease.Token, renewed renewals) (worklease.Token, error) {
	// A context of the run's own, cancelled after it, since renewCtx lives as long.
	runCtx, endRun := context.WithCancel(ctx)
	defer endRun()
	renewCtx, stopRenewal := alice.StartRenewal(runCtx, tokenA, worklease.WithRenewalInterval(ttl/4))
	defer stopRenewal()

	type acquisition struct {
		token worklease.Token
		err   error
	}
	waiting := make(chan acquisition, 1)
	go func() {
		token, err := bob.Acquire(ctx, work, worklease.WithWaitForLease(), worklease.WithPollInterval(100*time.Millisecond))
		waiting <- acquisition{token, err}
	}()
	fmt.Println("bob waits for as long as it takes")

	first, ok := worklease.LeaseWindow(renewCtx)
	if !ok {
		return worklease.Token{}, context.Cause(renewCtx)
	}
	for range 6 {
		select {
		case <-renewed.done:
		case <-renewCtx.Done():
			return worklease.Token{}, context.Cause(renewCtx)
		}
	}
	now, ok := worklease.LeaseWindow(renewCtx)
	fmt.Println("alice's lease was renewed 6 times; its window is open:", ok, "and has moved:", now.After(first))

	if err := alice.Checkpoint(renewCtx, tokenA, []byte("half of the products")); err != nil {
		return worklease.Token{}, err
	}
	stopRenewal() // before the release, so that no renewal meets a released lease
	if err := alice.Release(ctx, tokenA, worklease.ExitAbandoned); err != nil {
		return worklease.Token{}, err
	}
	fmt.Println("alice stores what she has and leaves")

	b := <-waiting
	if b.err != nil {
		return worklease.Token{}, b.err
	}
	prior, err := bob.ReadCheckpoint(ctx, b.token)
	if err != nil {
		return worklease.Token{}, err
	}
	fmt.Printf("bob acquires; %s left it %s, with %q\n", prior.PrevHolderID, prior.PrevExit, prior.State)
	return b.token, nil
}

// lose shows how a renewal ends when the lease is taken away from under it.
func lose(ctx context.Context, bob worklease.Lease, token worklease.Token) error {
	runCtx, endRun := context.WithCancel(ctx)
	defer endRun()
	renewCtx, stopRenewal := bob.StartRenewal(runCtx, token, worklease.WithRenewalInterval(ttl/4))
	defer stopRenewal()

	if err := bob.Forget(ctx, token); err != nil {
		return err
	}
	fmt.Println("somebody deletes the row")
	<-renewCtx.Done()
	cause := context.Cause(renewCtx)
	fmt.Println("bob's context ends; fenced:", errors.Is(cause, worklease.ErrFenced))
	if _, ok := worklease.LeaseWindow(renewCtx); ok {
		return errors.New("a lost lease has a window")
	}
	return nil
}
