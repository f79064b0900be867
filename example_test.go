package worklease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
)

// One whole life of a lease by hand: take it, read what the last holder left, work
// under a renewal, store the result, leave. Packages worker, leader and pool do
// all of this for you.
func Example() {
	b := memory.New() // in production: postgres.New(db)
	ctx := context.Background()

	for range 2 {
		if err := runOnce(ctx, b); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// found "" (none)
	// found "step 1" (finished)
}

func runOnce(ctx context.Context, b *memory.Backend) error {
	lease, err := worklease.New(b, worklease.Config{
		TTL:      30 * time.Second,
		HolderID: fmt.Sprintf("worker-%d", os.Getpid()), // unique for each process
	})
	if err != nil {
		return err
	}

	token, err := lease.Acquire(ctx, "billing-run-2026-10")
	if err != nil {
		return err // matches worklease.ErrLeaseHeld while somebody else has it
	}

	prior, err := lease.ReadCheckpoint(ctx, token)
	if err != nil {
		return err
	}
	switch prior.PrevExit {
	case worklease.ExitNone:
		// Nobody was here before: start from the beginning.
	case worklease.ExitFinished:
		// The last run came to its end, and prior.State is where.
	case worklease.ExitRetired:
		// Done for good: hand the lease back as it was.
		return lease.Release(ctx, token, worklease.ExitRetired)
	default:
		// Abandoned, expired, or a mode of a later release: prior.State is
		// partial, so check it before going on from there.
	}

	// A context of this run's own, cancelled after it.
	runCtx, endRun := context.WithCancel(ctx)
	defer endRun()
	renewCtx, stopRenewal := lease.StartRenewal(runCtx, token)
	defer stopRenewal() // in case work panics

	state, workErr := work(renewCtx, prior)
	cause := context.Cause(renewCtx) // before the stop
	stopRenewal()

	switch {
	case errors.Is(workErr, worklease.ErrFenced), errors.Is(cause, worklease.ErrFenced):
		return worklease.ErrFenced // a successor has the lease: write nothing
	case errors.Is(cause, worklease.ErrLeaseWindowExhausted):
		return errors.Join(workErr, cause) // it may have lapsed: write nothing
	}

	// The last writes should survive the end of ctx, but not hold up a shutdown.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if state != nil {
		if err := lease.Checkpoint(cleanup, token, state); err != nil {
			return errors.Join(workErr, err)
		}
	}
	mode := worklease.ExitFinished // ExitRetired for work that runs only once
	if workErr != nil {
		mode = worklease.ExitAbandoned
	}
	return errors.Join(workErr, lease.Release(cleanup, token, mode))
}

// work stands for what is done under the lease. It returns how far it came.
func work(_ context.Context, prior worklease.Checkpoint) ([]byte, error) {
	fmt.Printf("found %q (%v)\n", prior.State, prior.PrevExit)
	return []byte("step 1"), nil
}

// exampleLease returns a Lease for holder on b.
func exampleLease(b *memory.Backend, holder string) worklease.Lease {
	lease, err := worklease.New(b, worklease.Config{TTL: 30 * time.Second, HolderID: holder})
	if err != nil {
		log.Fatal(err)
	}
	return lease
}

// exampleToken returns a lease that was acquired.
func exampleToken(lease worklease.Lease, workID string) worklease.Token {
	token, err := lease.Acquire(context.Background(), workID)
	if err != nil {
		log.Fatal(err)
	}
	return token
}

func ExampleNew() {
	_, err := worklease.New(memory.New(), worklease.Config{TTL: 30, HolderID: "worker-1"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, worklease.ErrConfigInvalid))

	_, err = worklease.New(memory.New(), worklease.Config{TTL: 30 * time.Second, HolderID: "worker-1"})
	fmt.Println(err)
	// Output:
	// worklease: New: TTL 30ns is below 1ms: invalid configuration
	// true
	// <nil>
}

// Without an option, Acquire makes one attempt.
func ExampleLease_Acquire() {
	ctx := context.Background()
	b := memory.New()
	first, second := exampleLease(b, "worker-1"), exampleLease(b, "worker-2")

	token, err := first.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token.HolderID(), "holds", token.WorkID())

	_, err = second.Acquire(ctx, "nightly-report")
	var held *worklease.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.HolderID)
	}
	fmt.Println(errors.Is(err, worklease.ErrLeaseHeld))
	// Output:
	// worker-1 holds nightly-report
	// held by worker-1
	// true
}

// A waiting Acquire takes the lease over once its holder has left.
func ExampleWithWaitForLease() {
	b := memory.New()
	first, second := exampleLease(b, "worker-1"), exampleLease(b, "worker-2")
	token := exampleToken(first, "nightly-report")

	left := make(chan error, 1)
	go func() { left <- first.Release(context.Background(), token, worklease.ExitAbandoned) }()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	next, err := second.Acquire(ctx, "nightly-report",
		worklease.WithWaitForLease(), worklease.WithPollInterval(10*time.Millisecond))
	if err != nil {
		log.Fatal(err) // matches ctx.Err() when the minute is over
	}
	if err := <-left; err != nil {
		log.Fatal(err)
	}
	fmt.Println(next.HolderID(), "holds it now")
	fmt.Println("with a greater token:", next.FencingToken() > token.FencingToken())
	// Output:
	// worker-2 holds it now
	// with a greater token: true
}

func ExampleLease_ReadCheckpoint() {
	ctx := context.Background()
	b := memory.New()
	first, second := exampleLease(b, "worker-1"), exampleLease(b, "worker-2")

	token := exampleToken(first, "import")
	if err := first.Checkpoint(ctx, token, []byte("row 1000")); err != nil {
		log.Fatal(err)
	}
	if err := first.Release(ctx, token, worklease.ExitAbandoned); err != nil {
		log.Fatal(err)
	}

	prior, err := second.ReadCheckpoint(ctx, exampleToken(second, "import"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s left it %v at %q\n", prior.PrevHolderID, prior.PrevExit, prior.State)
	// Output: worker-1 left it abandoned at "row 1000"
}

// State is nil on the first acquisition, and after a Checkpoint without state.
func ExampleLease_ReadCheckpoint_nothing() {
	ctx := context.Background()
	lease := exampleLease(memory.New(), "worker-1")
	token := exampleToken(lease, "import")

	prior, err := lease.ReadCheckpoint(ctx, token)
	if err != nil {
		log.Fatal(err)
	}
	if prior.State == nil {
		fmt.Println("nothing stored: start from the beginning")
	}
	// Output: nothing stored: start from the beginning
}

// A Checkpoint stores how far the work came and extends the lease in one step. A
// holder that was superseded is refused.
func ExampleLease_Checkpoint() {
	ctx := context.Background()
	b := memory.New()
	first, second := exampleLease(b, "worker-1"), exampleLease(b, "worker-2")

	token := exampleToken(first, "import")
	for row := 1000; row <= 3000; row += 1000 {
		if err := first.Checkpoint(ctx, token, fmt.Appendf(nil, "row %d", row)); err != nil {
			log.Fatal(err)
		}
	}
	if err := first.Release(ctx, token, worklease.ExitAbandoned); err != nil {
		log.Fatal(err)
	}
	exampleToken(second, "import")

	err := first.Checkpoint(ctx, token, []byte("row 4000"))
	fmt.Println(errors.Is(err, worklease.ErrFenced))
	// Output: true
}

// Renew says "still alive" where there is nothing new to store.
func ExampleLease_Renew() {
	ctx := context.Background()
	lease := exampleLease(memory.New(), "worker-1")
	token := exampleToken(lease, "import")

	if err := lease.Renew(ctx, token); err != nil {
		log.Fatal(err) // ErrFenced: stop working
	}
	fmt.Println("extended")
	// Output: extended
}

// The first declared exit stands, and frees the lease at once.
func ExampleLease_Release() {
	ctx := context.Background()
	b := memory.New()
	first, second := exampleLease(b, "worker-1"), exampleLease(b, "worker-2")

	token := exampleToken(first, "import")
	if err := first.Release(ctx, token, worklease.ExitFinished); err != nil {
		log.Fatal(err)
	}
	err := first.Release(ctx, token, worklease.ExitAbandoned)
	fmt.Println(errors.Is(err, worklease.ErrLeaseExpired))

	prior, err := second.ReadCheckpoint(ctx, exampleToken(second, "import"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prior.PrevExit)
	// Output:
	// true
	// finished
}

// Forget removes a row, also after one's own Release.
func ExampleLease_Forget() {
	ctx := context.Background()
	lease := exampleLease(memory.New(), "worker-1")

	token := exampleToken(lease, "import")
	if err := lease.Release(ctx, token, worklease.ExitRetired); err != nil {
		log.Fatal(err)
	}
	if err := lease.Forget(ctx, token); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(lease.Forget(ctx, token), worklease.ErrFenced)) // gone already

	prior, err := lease.ReadCheckpoint(ctx, exampleToken(lease, "import"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prior.PrevExit)
	// Output:
	// true
	// none
}

// The renewal gets a context of the run's own: renewCtx stays its child after the
// stop, and goes with it.
func ExampleLease_StartRenewal() {
	ctx := context.Background() // lives as long as the process
	lease := exampleLease(memory.New(), "worker-1")
	token := exampleToken(lease, "import")

	runCtx, endRun := context.WithCancel(ctx)
	defer endRun()
	renewCtx, stopRenewal := lease.StartRenewal(runCtx, token)
	defer stopRenewal() // in case the work panics

	// Here the work is done, under renewCtx.
	fmt.Println("lost:", context.Cause(renewCtx) != nil)

	// Stop before the release, and release under ctx: renewCtx may have ended.
	stopRenewal()
	if err := lease.Release(ctx, token, worklease.ExitFinished); err != nil {
		log.Fatal(err)
	}
	fmt.Println("released")
	// Output:
	// lost: false
	// released
}

// Ask how much of the lease is left before a step that takes long.
func ExampleLeaseWindow() {
	lease := exampleLease(memory.New(), "worker-1")
	token := exampleToken(lease, "import")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	renewCtx, stopRenewal := lease.StartRenewal(ctx, token)
	defer stopRenewal()
	if deadline, ok := worklease.LeaseWindow(renewCtx); ok && time.Until(deadline) > 5*time.Second {
		fmt.Println("enough for a step of 5 s")
	}

	_, ok := worklease.LeaseWindow(context.Background())
	fmt.Println("outside a renewal:", ok)
	// Output:
	// enough for a step of 5 s
	// outside a renewal: false
}

// acquireCounter is an observer that needs one method only and keeps compiling
// when a later release adds another.
type acquireCounter struct {
	worklease.NoopObserver
	n atomic.Int64
}

func (c *acquireCounter) OnAcquire(_ context.Context, _ worklease.AcquireEvent) {
	c.n.Add(1)
}

func ExampleNoopObserver() {
	counter := &acquireCounter{}
	lease, err := worklease.New(memory.New(), worklease.Config{
		TTL:      30 * time.Second,
		HolderID: "worker-1",
		Observer: counter,
	})
	if err != nil {
		log.Fatal(err)
	}
	exampleToken(lease, "import")
	fmt.Println(counter.n.Load(), "attempt")
	// Output: 1 attempt
}

// wallClock is a clock that examples can set.
type wallClock struct{ now time.Time }

func (c *wallClock) Now() time.Time { return c.now }

// Sweep deletes what was retired long ago, and nothing that somebody could resume.
func ExampleVacuum_Sweep() {
	ctx := context.Background()
	clock := &wallClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b := memory.New(memory.WithClock(clock))
	lease := exampleLease(b, "worker-1")
	for id, mode := range map[string]worklease.ExitMode{
		"one-shot": worklease.ExitRetired,
		"nightly":  worklease.ExitFinished,
	} {
		if err := lease.Release(ctx, exampleToken(lease, id), mode); err != nil {
			log.Fatal(err)
		}
	}
	clock.now = clock.now.AddDate(0, 1, 0)

	vacuum, err := worklease.NewVacuum(b, worklease.VacuumConfig{})
	if err != nil {
		log.Fatal(err)
	}
	n, err := vacuum.Sweep(ctx, worklease.SweepOptions{Retention: 7 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deleted", n)
	// Output: deleted 1
}

// sweepLog is a VacuumObserver.
type sweepLog struct{ worklease.NoopVacuumObserver }

func (sweepLog) OnSweep(_ context.Context, event worklease.SweepEvent) {
	fmt.Printf("swept %d, kept what is younger than %v\n", event.Deleted, event.Options.Retention)
}

func ExampleNewVacuum() {
	vacuum, err := worklease.NewVacuum(memory.New(), worklease.VacuumConfig{Observer: sweepLog{}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := vacuum.Sweep(context.Background(), worklease.SweepOptions{Retention: time.Hour}); err != nil {
		log.Fatal(err)
	}

	_, err = vacuum.Sweep(context.Background(), worklease.SweepOptions{})
	fmt.Println(errors.Is(err, worklease.ErrRetentionRequired))
	// Output:
	// swept 0, kept what is younger than 1h0m0s
	// true
}

func ExampleToken() {
	clock := &wallClock{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	lease := exampleLease(memory.New(memory.WithClock(clock)), "worker-1")
	token := exampleToken(lease, "import")

	fmt.Println(token)
	fmt.Println("fence other stores with", token.FencingToken())
	// Output:
	// worklease.Token{workID="import" holderID="worker-1" fencingToken=1 expiresAt=2026-01-01T12:00:30Z}
	// fence other stores with 1
}

func ExampleHasWaitForLease() {
	opts := []worklease.AcquireOption{worklease.WithWaitForLease()}
	fmt.Println(worklease.HasWaitForLease(opts), worklease.HasWaitForLease(nil))
	// Output: true false
}
