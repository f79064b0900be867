//go:build linux

package report

import (
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/ours"
	"github.com/aetomala/worklease/internal/bench/plan"
)

const (
	width  = 8 * vg.Inch
	height = 4 * vg.Inch
)

// colours tell the series apart, for the colour-blind too (Okabe and Ito).
var colours = []color.Color{
	color.RGBA{0x99, 0x99, 0x99, 0xff},
	color.RGBA{0x00, 0x72, 0xb2, 0xff},
	color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	color.RGBA{0x00, 0x00, 0x00, 0xff},
}

// plot draws what was compared into a directory.
func (c *Compared) plot(dir string) error {
	limit := []string{plan.Limit, plan.Name(ours.LibPQ, ours.AsLease), plan.Name(ours.Pgx, ours.AsLease)}
	run := []string{plan.Runner(ours.LibPQ), plan.Runner(ours.Pgx), plan.River, plan.DBOS, plan.Etcd, plan.Redislock}
	for _, chart := range []struct {
		file, table string
		contenders  []string
	}{
		{"renew.svg", plan.Renew, limit},
		{"checkpoint.svg", plan.Checkpoint, limit},
		{"acquire-release.svg", plan.AcquireRelease, limit},
		{"refused.svg", plan.RefusedOne, []string{upsert(ours.LibPQ), plan.Name(ours.LibPQ, ours.AsLease), upsert(ours.Pgx), plan.Name(ours.Pgx, ours.AsLease)}},
		{"runs.svg", plan.Run10, run},
	} {
		if err := c.bars(filepath.Join(dir, chart.file), chart.table, chart.contenders); err != nil {
			return err
		}
	}
	if err := c.lines(filepath.Join(dir, "held-flushes.svg"), "flushes a second", heldFlushes); err != nil {
		return err
	}
	return c.lines(filepath.Join(dir, "held-cpu.svg"), "CPU of the database, ms a second", func(h ours.Held) float64 { return heldCPU(h) * 1000 })
}

// bars draws a table's rates, in a group for each number of clients.
func (c *Compared) bars(file, table string, contenders []string) error {
	p := plot.New()
	p.Title.Text = table
	p.Y.Label.Text = "a second"
	p.Legend.Top, p.Legend.Left = true, true
	bar := vg.Points(110 / float64(len(contenders)))
	var highest float64
	for i, contender := range contenders {
		var values plotter.Values
		for _, clients := range plan.Clients {
			rate := c.Samples.Of(measure.Key{Table: table, Contender: contender, Clients: clients}, measure.Rate).Median
			values = append(values, rate)
			highest = max(highest, rate)
		}
		chart, err := plotter.NewBarChart(values, bar)
		if err != nil {
			return err
		}
		chart.Color = colours[i]
		chart.LineStyle.Width = 0
		chart.Offset = bar * vg.Length(float64(i)-float64(len(contenders)-1)/2)
		p.Add(chart)
		p.Legend.Add(contender, chart)
	}
	var names []string
	for _, clients := range plan.Clients {
		names = append(names, many(clients))
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	p.Y.Min, p.Y.Max = 0, highest*1.25 // room for the legend
	return p.Save(width, height, file)
}

// lines draws what holding leases costs a second, by their number.
func (c *Compared) lines(file, label string, get func(ours.Held) float64) error {
	p := plot.New()
	p.Title.Text = "Leases held by one process"
	p.X.Label.Text, p.Y.Label.Text = "leases", label
	p.Legend.Top, p.Legend.Left = true, true
	var highest float64
	for i, way := range []struct {
		name    string
		batched bool
	}{{"renewed singly", false}, {"renewed in batches", true}} {
		var points plotter.XYs
		for _, leases := range plan.HeldLeases {
			// Each is renewed once in half a TTL.
			each := spreadOver(c.holding(leases, way.batched), get).Median
			y := each * float64(leases) / (ours.HeldTTL.Seconds() / 2)
			points = append(points, plotter.XY{X: float64(leases), Y: y})
			highest = math.Max(highest, y)
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, marks.Color = colours[i+1], colours[i+1]
		line.Width = vg.Points(2)
		p.Add(line, marks)
		p.Legend.Add(way.name, line, marks)
	}
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, highest*1.25
	return p.Save(width, height, file)
}
