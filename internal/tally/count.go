package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// count is how many specs, tests and examples came to what.
type count struct {
	passed, failed int
	skipped        int // or pending
}

func (c count) ran() int { return c.passed + c.failed }

func (c count) plus(d count) count {
	return count{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // in place of Package where a build is concerned
	Test       string
	Output     string
	Elapsed    float64
}

// read counts what a stream of go test -json says. It writes a line for each
// package to w, and the whole output of one that failed.
func read(r *bufio.Reader, w io.Writer) (count, error) {
	var (
		total    count
		packages = make(map[string]*tests)
	)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(w, "%s", line)
			continue
		}
		if e.Package == "" {
			fmt.Fprint(w, e.Output)
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &tests{specs: make(map[string]count)}
			packages[e.Package] = p
		}
		if p.add(e) {
			total = total.plus(p.count)
			p.report(w, e)
			delete(packages, e.Package)
		}
	}
}

// tests is what is known of one package so far.
type tests struct {
	count  count
	specs  map[string]count // of the tests that run a Ginkgo suite
	output strings.Builder
}

// add takes one event in and reports whether it was the package's last.
func (p *tests) add(e event) (done bool) {
	p.output.WriteString(e.Output)
	if c, ok := summary(e.Output); ok {
		p.specs[e.Test] = c
	}
	ended := e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
	switch {
	case !ended:
		return false
	case e.Test != "":
		p.count = p.count.plus(p.result(e))
		return false
	case e.Action == "fail" && p.count.failed == 0:
		// It did not build, or ended outside any test.
		p.count.failed++
	}
	return true
}

// result is what a test that has ended counts for: its specs if it runs a
// suite, else itself. A subtest counts where it was skipped alone.
func (p *tests) result(e event) count {
	c, suite := p.specs[e.Test]
	switch {
	case suite && e.Action == "fail" && c.failed == 0:
		// A suite fails as a whole too, as on a focused spec.
		c.failed++
	case suite:
	case e.Action == "skip":
		c.skipped++
	case strings.Contains(e.Test, "/"):
	case e.Action == "fail":
		c.failed++
	default:
		c.passed++
	}
	return c
}

// report writes at once what there is to say of a package.
func (p *tests) report(w io.Writer, e event) {
	var text strings.Builder
	if e.Action == "fail" {
		text.WriteString(p.output.String())
	}
	if p.count != (count{}) {
		fmt.Fprintf(&text, "%-4s %-60s %5d %8.1fs\n", e.Action, e.Package, p.count.ran(), e.Elapsed)
	}
	fmt.Fprint(w, text.String())
}

var (
	// go test -json of Go 1.27 drops the escape character itself.
	colours = regexp.MustCompile("\x1b?\\[[0-9;]*m")
	ginkgo  = regexp.MustCompile(`^(?:SUCCESS|FAIL)! .*-- (\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped`)
)

// summary reads the last line of a Ginkgo suite.
func summary(line string) (count, bool) {
	m := ginkgo.FindStringSubmatch(colours.ReplaceAllString(line, ""))
	if m == nil {
		return count{}, false
	}
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(m[i+1]); err != nil {
			return count{}, false
		}
	}
	return count{passed: n[0], failed: n[1], skipped: n[2] + n[3]}, true
}
