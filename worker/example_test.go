package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/checkpoint"
	"github.com/aetomala/worklease/worker"
)

// exampleLease is a lease on a backend of its own.
func exampleLease() worklease.Lease {
	lease, err := worklease.New(memory.New(), worklease.Config{TTL: 30 * time.Second, HolderID: "worker-1"})
	if err != nil {
		panic(err) // the configuration above is valid
	}
	return lease
}

func ExampleNewRunner() {
	_, err := worker.NewRunner(worker.RunnerConfig{})
	fmt.Println(errors.Is(err, worker.ErrLeaseRequired), errors.Is(err, worker.ErrWorkFnRequired))
	fmt.Println(errors.Is(err, worklease.ErrConfigInvalid))
	// Output:
	// true true
	// true
}

func ExampleRunner_Run() {
	onboard := func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
		fmt.Printf("%s was left %s with %q\n", token.WorkID(), prior.PrevExit, prior.State)
		if prior.State == nil {
			return []byte("account created"), errors.New("mail server is down")
		}
		return []byte("welcome sent"), nil
	}
	runner, err := worker.NewRunner(worker.RunnerConfig{Lease: exampleLease(), WorkFn: onboard})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		if err := runner.Run(context.Background(), "onboarding:tenant-abc"); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// onboarding:tenant-abc was left none with ""
	// mail server is down
	// onboarding:tenant-abc was left abandoned with "account created"
	// onboarding:tenant-abc was left finished with "welcome sent"
}

// Work that is done for good is retired, and stays so if somebody runs it again.
func ExampleWorkFn_retire() {
	migrate := func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
		if prior.PrevExit == worklease.ExitRetired {
			fmt.Println("already done")
			return nil, worklease.ErrRetire // nil leaves the stored state alone
		}
		fmt.Println("migrating")
		return []byte("all rows moved"), worklease.ErrRetire
	}
	runner, err := worker.NewRunner(worker.RunnerConfig{Lease: exampleLease(), WorkFn: migrate})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		fmt.Println("Run returned", runner.Run(context.Background(), "migration:0042"))
	}
	// Output:
	// migrating
	// Run returned <nil>
	// already done
	// Run returned <nil>
}

// progress is what the work below stores.
type progress struct {
	Imported int `json:"imported"`
}

// A work function may store its progress in the middle. It should return nil then,
// which leaves what was stored alone.
func ExampleWorkFn_checkpoint() {
	lease := exampleLease()
	users := []string{"ann", "bob", "cid", "dan"}
	tooBig := errors.New("out of memory")
	importUsers := func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
		done, err := checkpoint.Decode[progress](checkpoint.JSON(), prior.State)
		if err != nil {
			return nil, err
		}
		fmt.Println("starting after", done.Imported)
		for _, user := range users[done.Imported:] {
			if user == "cid" && prior.State == nil { // on the first run
				return nil, tooBig
			}
			done.Imported++
			state, err := checkpoint.Encode(checkpoint.JSON(), done)
			if err != nil {
				return nil, err
			}
			if err := lease.Checkpoint(ctx, token, state); err != nil {
				return nil, err
			}
			fmt.Printf("%s imported, stored %s\n", user, state)
		}
		return nil, nil
	}
	runner, err := worker.NewRunner(worker.RunnerConfig{Lease: lease, WorkFn: importUsers})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if err := runner.Run(context.Background(), "import:users"); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// starting after 0
	// ann imported, stored {"imported":1}
	// bob imported, stored {"imported":2}
	// out of memory
	// starting after 2
	// cid imported, stored {"imported":3}
	// dan imported, stored {"imported":4}
}

// The trap: an empty state erases what was stored, while nil keeps it.
func ExampleWorkFn_emptyState() {
	results := [][]byte{[]byte("half"), nil, {}, nil}
	run := 0
	work := func(ctx context.Context, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
		fmt.Printf("found %q, returning %#v\n", prior.State, results[run])
		run++
		return results[run-1], nil
	}
	runner, err := worker.NewRunner(worker.RunnerConfig{Lease: exampleLease(), WorkFn: work})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range results {
		if err := runner.Run(context.Background(), "report"); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// found "", returning []byte{0x68, 0x61, 0x6c, 0x66}
	// found "half", returning []byte(nil)
	// found "half", returning []byte{}
	// found "", returning []byte(nil)
}
