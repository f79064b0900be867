//go:build linux

package report

import (
	"fmt"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/ours"
	"github.com/aetomala/worklease/internal/bench/plan"
)

// Target is a figure that worklease wants to reach.
type Target struct {
	What   string
	Bound  float64
	AtMost bool // else at least
	Digits int
	Got    measure.Spread
}

// Met reports whether the median reaches it.
func (t Target) Met() bool {
	if t.AtMost {
		return t.Got.Median <= t.Bound
	}
	return t.Got.Median >= t.Bound
}

// targets are those of a run that compared.
func (c *Compared) targets() []Target {
	targets := c.limitTargets()
	targets = append(targets, c.refusedTargets()...)
	targets = append(targets, c.runTargets()...)
	return append(targets, c.heldTargets()...)
}

// limitTargets are the shares of pgbench's rate, by driver and clients.
func (c *Compared) limitTargets() (targets []Target) {
	for _, table := range []string{plan.Renew, plan.Checkpoint, plan.AcquireRelease} {
		for _, driver := range plan.Drivers {
			for _, clients := range plan.Clients {
				bound := map[bool]float64{true: 0.80, false: 0.75}[driver == ours.LibPQ]
				if clients == 1 {
					bound -= 0.05
				}
				targets = append(targets, Target{
					What:   fmt.Sprintf("%s through %s, %s, of pgbench", table, driver.Name, many(clients)),
					Bound:  bound,
					Digits: 2,
					Got:    c.ratio(table, clients, plan.Name(driver, ours.AsLease), plan.Limit),
				})
			}
		}
	}
	return targets
}

// refusedTargets compare a failed Acquire with that of a plain upsert.
func (c *Compared) refusedTargets() (targets []Target) {
	for _, table := range []struct {
		id    string
		times float64
	}{{plan.RefusedOne, 4}, {plan.RefusedMany, 2}} {
		for _, driver := range plan.Drivers {
			ours := plan.Name(driver, ours.AsLease)
			targets = append(targets,
				Target{
					What:   fmt.Sprintf("%s, through %s, %s, of the plain upsert", table.id, driver.Name, many(refusedClients)),
					Bound:  table.times,
					Digits: 1,
					Got:    c.ratio(table.id, refusedClients, ours, upsert(driver)),
				},
				Target{
					What:   "bytes of log for each",
					Bound:  1, // what the server does beside it, a checkpoint or a vacuum, is counted too
					AtMost: true,
					Digits: 2,
					Got:    c.Samples.Of(measure.Key{Table: table.id, Contender: ours, Clients: refusedClients}, logBytes),
				})
		}
	}
	return targets
}

const refusedClients = 8

func upsert(driver ours.Driver) string { return plan.Name(driver, ours.AsUpsert) }

// runTargets compare a whole run with the peers and with its bare statements.
func (c *Compared) runTargets() (targets []Target) {
	for _, clients := range plan.Clients {
		for _, peer := range []string{plan.River, plan.DBOS, plan.Etcd} {
			targets = append(targets, Target{
				What:   fmt.Sprintf("%s, %s, %s, of %s", plan.Run10, plan.Runner(ours.LibPQ), many(clients), peer),
				Bound:  1,
				Digits: 2,
				Got:    c.ratio(plan.Run10, clients, plan.Runner(ours.LibPQ), peer),
			})
		}
		for _, driver := range plan.Drivers {
			targets = append(targets, Target{
				What:   fmt.Sprintf("%s, %s, %s, of the bare statements", plan.Run10, plan.Runner(driver), many(clients)),
				Bound:  0.9,
				Digits: 2,
				Got:    c.ratio(plan.Run10, clients, plan.Runner(driver), plan.Name(driver, ours.AsStatement)),
			})
		}
	}
	return targets
}

// heldTargets compare batched renewal with single renewal.
func (c *Compared) heldTargets() []Target {
	leases := plan.HeldLeases[len(plan.HeldLeases)-1]
	what := thousands(float64(leases), 0) + " leases held: "
	batched, single := c.holding(leases, true), c.holding(leases, false)
	share := func(get func(ours.Held) float64) measure.Spread {
		var shares []float64
		for round := range min(len(batched), len(single)) {
			shares = append(shares, get(batched[round])/get(single[round]))
		}
		return measure.SpreadOf(shares)
	}
	return []Target{
		{What: what + "flushes, of single renewals", Bound: 1.0 / 50, AtMost: true, Digits: 4, Got: share(heldFlushes)},
		{What: what + "CPU of the database, of single renewals", Bound: 1.0 / 5, AtMost: true, Digits: 2, Got: share(heldCPU)},
		{What: what + "bytes of this process for each", Bound: 4096, AtMost: true, Got: spreadOver(batched, heldBytes)},
		{What: what + "goroutines for all", Bound: 100, AtMost: true, Got: spreadOver(batched, heldGoroutines)},
	}
}

// targets are that no operation takes longer on a larger table.
func (r *Rows) targets() (targets []Target) {
	for _, grown := range ours.GrownOperations {
		table := plan.GrowthOf(grown)
		for _, rows := range plan.Rows[1:] {
			targets = append(targets, Target{
				What:   fmt.Sprintf("%s with %s, time of that with %s", grown.Name, rows.Name, plan.Rows[0].Name),
				Bound:  1.3,
				AtMost: true,
				Digits: 2,
				Got: r.Samples.Ratio(
					measure.Key{Table: table, Contender: plan.Rows[0].Name, Clients: plan.GrowthClients},
					measure.Key{Table: table, Contender: rows.Name, Clients: plan.GrowthClients}, measure.Rate),
			})
		}
	}
	return targets
}

// targets are that nothing grows for long.
func (h *Hour) targets() (targets []Target) {
	for _, name := range sortedNames(h.End) {
		times := h.End[name] / h.Minute[name]
		targets = append(targets, Target{
			What:   fmt.Sprintf("size of %s after %v, of that after a minute", name, h.Length),
			Bound:  3,
			AtMost: true,
			Digits: 2,
			Got:    measure.Spread{Median: times, Least: times, Greatest: times},
		})
	}
	return targets
}

func (c *Compared) ratio(table string, clients int, contender, yardstick string) measure.Spread {
	return c.Samples.Ratio(
		measure.Key{Table: table, Contender: contender, Clients: clients},
		measure.Key{Table: table, Contender: yardstick, Clients: clients}, measure.Rate)
}

// holding returns the rounds in which so many leases were held.
func (c *Compared) holding(leases int, batched bool) []ours.Held {
	for _, h := range c.Held {
		if h.Leases == leases && h.Batched == batched {
			return h.Rounds
		}
	}
	return nil
}

func spreadOver(rounds []ours.Held, get func(ours.Held) float64) measure.Spread {
	var values []float64
	for _, h := range rounds {
		values = append(values, get(h))
	}
	return measure.SpreadOf(values)
}

// What is taken of leases that were held; costs are for each renewal.
func heldFlushes(h ours.Held) float64    { return h.Cost.Flushes / h.Renewed }
func heldCPU(h ours.Held) float64        { return h.Cost.CPU / h.Renewed }
func heldStatements(h ours.Held) float64 { return h.Cost.Statements / h.Renewed }
func heldLog(h ours.Held) float64        { return h.Cost.LogBytes / h.Renewed }
func heldBytes(h ours.Held) float64      { return h.Bytes }
func heldGoroutines(h ours.Held) float64 { return h.Goroutines }

// What is taken of a sample.
func logBytes(s measure.Sample) float64 { return s.Cost.LogBytes }
