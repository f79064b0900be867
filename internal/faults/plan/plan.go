// Package plan decides what a fault run does to whom and when. A seed gives the
// same plan every time.
package plan

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds.
const (
	Kill        Kind = "kill"         // SIGKILL to a worker; another takes its place
	FreezeShort Kind = "freeze-short" // SIGSTOP for less than the TTL, then SIGCONT
	FreezeLong  Kind = "freeze-long"  // for more than the TTL
	Reset       Kind = "reset"        // a worker's connections are reset, and new ones for a while
	Swallow     Kind = "swallow"      // its packets vanish for a while, then its connections are reset
	Delay       Kind = "delay"        // its packets are late for a while
	LoseReply   Kind = "lose-reply"   // connections are cut after the server has answered, before the worker hears it
	Terminate   Kind = "terminate"    // pg_terminate_backend on half of all sessions
	Exhaust     Kind = "exhaust"      // a worker's connection pool is taken for a while
	Crash       Kind = "crash"        // the server goes down at once, and comes up after a while
)

// Cut reports whether the kind is a cut of a worker's network.
func (k Kind) Cut() bool { return k == Reset || k == Swallow || k == Delay }

// deck is how often each kind comes.
var deck = []Kind{
	Kill, Kill, Kill,
	FreezeShort, FreezeShort, FreezeLong, FreezeLong, FreezeLong,
	Reset, Reset, Swallow, Swallow, Delay,
	LoseReply, LoseReply, LoseReply,
	Terminate, Exhaust, Crash,
}

// Fault is one thing that goes wrong.
type Fault struct {
	At     time.Duration // from the start of the run
	Kind   Kind
	Worker int           // whom it happens to, where it happens to one
	For    time.Duration // how long it lasts, where it lasts
}

// String is one line for people.
func (f Fault) String() string {
	return fmt.Sprintf("%v %s worker %d for %v", f.At, f.Kind, f.Worker, f.For)
}

// gap is the mean time between two faults.
const gap = 1300 * time.Millisecond

// New returns the faults of a run of the given length. The last ones end well
// before it.
func New(seed uint64, length time.Duration, workers int, ttl time.Duration) []Fault {
	rng := rand.New(rand.NewPCG(seed, 0x6661756c7473))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(rng.Int64N(int64(high-low)+1))
	}
	var faults []Fault
	var cards []Kind
	for at := time.Second; at < length-2*ttl; at += between(gap/2, gap*3/2) {
		if len(cards) == 0 {
			cards = append(cards, deck...)
			rng.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
		}
		f := Fault{At: at, Kind: cards[0], Worker: rng.IntN(workers)}
		cards = cards[1:]
		switch f.Kind {
		case FreezeShort:
			f.For = between(ttl/4, ttl*9/10)
		case FreezeLong:
			f.For = between(ttl*11/10, ttl*5/2)
		case Reset, Swallow, Delay, Exhaust:
			f.For = between(ttl/10, ttl*3/2)
		case LoseReply:
			f.For = between(ttl/10, ttl/2)
		case Crash:
			f.For = between(0, ttl*3/2)
		}
		faults = append(faults, f)
	}
	return faults
}
