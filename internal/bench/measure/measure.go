// Package measure runs pieces of work side by side and says what they came to.
//
// Rates on one machine wander from minute to minute, so that only work measured
// in turns can be compared: everything is run in rounds, a ratio is formed within
// its round, and what is reported is the median of the rounds with the least and
// the greatest.
package measure

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Work is one way to do something again and again.
type Work interface {
	// Prepare makes the server ready, so that every turn finds it alike.
	Prepare(ctx context.Context) error

	// Run does the work with so many clients at once for about length. It begins and
	// ends without a connection to a server, so that the server's statistics are
	// complete before and after.
	Run(ctx context.Context, clients int, length time.Duration) (Done, error)
}

// Done is how much work was done.
type Done struct {
	Timed   int           // how often it was done while time was taken
	Elapsed time.Duration // for that
	All     int           // how often it was done at all, first runs included
}

// Meter reads what a server has spent so far.
type Meter interface {
	Read(ctx context.Context) (Cost, error)
}

// Contender is a way to do a row's work that is compared with others.
type Contender struct {
	Name string
	Work Work
	On   Meter // the server that bears the cost
}

// Table is work that several contenders do in turns.
type Table struct {
	ID         string
	Clients    []int
	Length     time.Duration // of each contender's turn
	Contenders []Contender
}

// Sample is what one turn came to.
type Sample struct {
	Rate   float64 // a second
	Cost   Cost    // for each time the work was done
	Client float64 // seconds of CPU, likewise, of this process and of programs that it ran
	Allocs float64 // likewise, of this process alone
	Bytes  float64 // allocated, likewise
}

// Key says whose samples and of which work.
type Key struct {
	Table     string
	Contender string
	Clients   int
}

// Samples holds those of a run, one for each round.
type Samples map[Key][]Sample

// Run goes through the tables in rounds and adds to samples. The contenders of a
// row follow each other, beginning with another one each round.
func Run(ctx context.Context, tables []Table, rounds int, samples Samples, log io.Writer) error {
	for round := range rounds {
		for _, t := range tables {
			for _, clients := range t.Clients {
				for i := range t.Contenders {
					c := t.Contenders[(i+round)%len(t.Contenders)]
					s, err := turn(ctx, c, clients, t.Length)
					if err != nil {
						return fmt.Errorf("%s: %s with %d clients: %w", t.ID, c.Name, clients, err)
					}
					key := Key{t.ID, c.Name, clients}
					samples[key] = append(samples[key], s)
					fmt.Fprintf(log, "%d %-18s %2d %-28s %9.0f/s\n", round+1, t.ID, clients, c.Name, s.Rate)
				}
			}
		}
	}
	return nil
}

// turn lets one contender work.
func turn(ctx context.Context, c Contender, clients int, length time.Duration) (Sample, error) {
	if err := c.Work.Prepare(ctx); err != nil {
		return Sample{}, err
	}
	before, err := c.On.Read(ctx)
	if err != nil {
		return Sample{}, err
	}
	own := spent()
	done, err := c.Work.Run(ctx, clients, length)
	if err != nil {
		return Sample{}, err
	}
	own = spent().minus(own)
	after, err := c.On.Read(ctx)
	if err != nil {
		return Sample{}, err
	}
	all := float64(done.All)
	return Sample{
		Rate:   float64(done.Timed) / done.Elapsed.Seconds(),
		Cost:   after.Minus(before).Per(all),
		Client: own.cpu / all,
		Allocs: own.allocs / all,
		Bytes:  own.bytes / all,
	}, nil
}
