//go:build linux

package report

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/ours"
	"github.com/aetomala/worklease/internal/bench/peers"
	"github.com/aetomala/worklease/internal/bench/plan"
	"github.com/aetomala/worklease/internal/bench/server"
)

//go:embed benchmarks.md.tmpl
var page string

// Write writes docs/benchmarks.md and its plots below docs, a directory.
func (r Results) Write(docs string) error {
	plots := filepath.Join(docs, "benchmarks")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	if r.Compared != nil {
		if err := r.Compared.plot(plots); err != nil {
			return err
		}
	}
	text, err := r.render()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "benchmarks.md"), []byte(text), 0o644)
}

func (r Results) render() (string, error) {
	t, err := template.New("benchmarks.md").Funcs(template.FuncMap{
		"about": about, "targets": targetGrid, "source": source,
		"postgresOptions": func() string { return strings.Join(server.PostgresOptions, ", ") },
		"redisOptions":    func() string { return strings.Join(server.RedisOptions[:4], " ") },
		"upsert":          func() string { return ours.UpsertSQL },
	}).Parse(page)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = t.Execute(&text, r)
	return text.String(), err
}

// about says where and how a run was made.
func about(a About) string {
	rows := [][]string{
		{"date", a.Date},
		{"command", "`" + a.Command + "`"},
		{"machine", a.Machine},
		{"kernel", a.Kernel},
		{"rounds, each turn of", fmt.Sprintf("%d, %v", a.Rounds, a.Length)},
		{"took", a.Took.String()},
	}
	for _, v := range a.Versions {
		rows = append(rows, []string{v.Name, v.Version})
	}
	return grid([]string{"", ""}, rows)
}

// source returns a peer's file.
func source(name string) (string, error) {
	text, err := peers.Sources.ReadFile(name)
	return strings.TrimSpace(string(text)), err
}

// Targets writes what was to be reached.
func (c *Compared) Targets() string { return targetGrid(c.targets()) }

// Targets writes what was to be reached.
func (r *Rows) Targets() string { return targetGrid(r.targets()) }

// Targets writes what was to be reached.
func (h *Hour) Targets() string { return targetGrid(h.targets()) }

func targetGrid(targets []Target) string {
	var rows [][]string
	for _, t := range targets {
		bound, verdict := "at least ", "reached"
		if t.AtMost {
			bound = "at most "
		}
		if !t.Met() {
			verdict = "**missed**"
		}
		rows = append(rows, []string{t.What, bound + thousands(t.Bound, t.Digits), spread(t.Got, t.Digits), verdict})
	}
	return grid([]string{"", "wanted", "measured", ""}, rows)
}

// Rates writes a table's rates, and each as a share of a yardstick's.
func (c *Compared) Rates(table, yardstick string) string {
	head := []string{table}
	for _, clients := range plan.Clients {
		head = append(head, many(clients)+", a second", "of "+yardstick)
	}
	var rows [][]string
	for _, contender := range c.contenders(table) {
		row := []string{contender}
		for _, clients := range plan.Clients {
			key := measure.Key{Table: table, Contender: contender, Clients: clients}
			row = append(row, spread(c.Samples.Of(key, measure.Rate), 0), spread(c.ratio(table, clients, contender, yardstick), 2))
		}
		rows = append(rows, row)
	}
	return grid(head, rows)
}

// costClients are how many clients work where costs are told: several share a
// flush then.
var costClients = []int{1, 8}

// Costs writes what each time costs, as medians.
func (c *Compared) Costs(table string) string {
	head := []string{table, "clients", "statements", "log, bytes", "flushes", "server, µs of CPU", "client, µs of CPU", "allocations", "allocated, bytes"}
	var rows [][]string
	for _, contender := range c.contenders(table) {
		for _, clients := range costClients {
			key := measure.Key{Table: table, Contender: contender, Clients: clients}
			median := func(get func(measure.Sample) float64) float64 { return c.Samples.Of(key, get).Median }
			rows = append(rows, []string{
				contender, fmt.Sprint(clients),
				thousands(median(func(s measure.Sample) float64 { return s.Cost.Statements }), 2),
				thousands(median(logBytes), 0),
				thousands(median(func(s measure.Sample) float64 { return s.Cost.Flushes }), 2),
				thousands(median(func(s measure.Sample) float64 { return s.Cost.CPU * 1e6 }), 0),
				thousands(median(func(s measure.Sample) float64 { return s.Client * 1e6 }), 0),
				thousands(median(func(s measure.Sample) float64 { return s.Allocs }), 0),
				thousands(median(func(s measure.Sample) float64 { return s.Bytes }), 0),
			})
		}
	}
	return grid(head, rows)
}

// Holdings writes what leases cost that are held, for each renewal.
func (c *Compared) Holdings() string {
	head := []string{"leases held", "renewed", "statements", "log, bytes", "flushes", "server, µs of CPU", "bytes a lease", "goroutines"}
	var rows [][]string
	for _, h := range c.Held {
		way := "singly"
		if h.Batched {
			way = "in batches"
		}
		rows = append(rows, []string{
			thousands(float64(h.Leases), 0), way,
			thousands(spreadOver(h.Rounds, heldStatements).Median, 4),
			thousands(spreadOver(h.Rounds, heldLog).Median, 0),
			thousands(spreadOver(h.Rounds, heldFlushes).Median, 4),
			thousands(spreadOver(h.Rounds, heldCPU).Median*1e6, 1),
			thousands(spreadOver(h.Rounds, heldBytes).Median, 0),
			thousands(spreadOver(h.Rounds, heldGoroutines).Median, 0),
		})
	}
	return grid(head, rows)
}

// Rates writes how each operation fares with the number of rows.
func (r *Rows) Rates() string {
	head := []string{"a second"}
	for _, rows := range plan.Rows {
		head = append(head, rows.Name)
	}
	var lines [][]string
	for _, grown := range ours.GrownOperations {
		line := []string{grown.Name}
		for _, rows := range plan.Rows {
			key := measure.Key{Table: plan.GrowthOf(grown), Contender: rows.Name, Clients: plan.GrowthClients}
			line = append(line, spread(r.Samples.Of(key, measure.Rate), 0))
		}
		lines = append(lines, line)
	}
	return grid(head, lines)
}

// Sizes writes how large the table and its indexes were.
func (h *Hour) Sizes() string {
	var rows [][]string
	for _, name := range sortedNames(h.End) {
		rows = append(rows, []string{name, thousands(h.Minute[name]/1024, 0), thousands(h.End[name]/1024, 0)})
	}
	return grid([]string{"KB", "after a minute", fmt.Sprint("after ", h.Length)}, rows)
}

// contenders lists those of a table, the fastest with most clients first.
func (c *Compared) contenders(table string) []string {
	most := plan.Clients[len(plan.Clients)-1]
	rates := map[string]float64{}
	for key := range c.Samples {
		if key.Table == table && key.Clients == most {
			rates[key.Contender] = c.Samples.Of(key, measure.Rate).Median
		}
	}
	return byValue(rates)
}
