package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestTally(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "tally")
}

const ok = "\x1b[38;5;10m\x1b[1mSUCCESS!\x1b[0m -- \x1b[1m7 Passed\x1b[0m | 0 Failed | 0 Pending | 0 Skipped\n"

var _ = Describe("read", func() {
	DescribeTable("counts",
		func(want count, events ...event) {
			Expect(read(stream(events...), GinkgoWriter)).To(Equal(want))
		},
		Entry("the specs of a suite in place of its test", count{passed: 7},
			said("p", "TestP", ok), ended("pass", "p", "TestP"), ended("pass", "p", "")),
		Entry("the specs of a suite whose colours have lost their escapes", count{passed: 7},
			said("p", "TestP", strings.ReplaceAll(ok, "\x1b", "")), ended("pass", "p", "TestP"), ended("pass", "p", "")),
		Entry("plain tests and examples one each", count{passed: 2},
			ended("pass", "p", "TestA"), ended("pass", "p", "ExampleA"), ended("pass", "p", "")),
		Entry("a subtest with its test", count{passed: 1},
			ended("pass", "p", "TestA/b"), ended("pass", "p", "TestA"), ended("pass", "p", "")),
		Entry("two packages that run at once", count{passed: 8},
			said("p", "TestP", ok), ended("pass", "q", "TestQ"), ended("pass", "q", ""), ended("pass", "p", "TestP"), ended("pass", "p", "")),
		Entry("failed specs", count{passed: 5, failed: 2},
			said("p", "TestP", "FAIL! -- 5 Passed | 2 Failed | 0 Pending | 0 Skipped\n"), ended("fail", "p", "TestP"), ended("fail", "p", "")),
		Entry("a suite that failed without a failed spec", count{passed: 5, failed: 1},
			said("p", "TestP", "FAIL! - Focused -- 5 Passed | 0 Failed | 0 Pending | 0 Skipped\n"), ended("fail", "p", "TestP"), ended("fail", "p", "")),
		Entry("skipped and pending specs as one", count{passed: 5, skipped: 3},
			said("p", "TestP", "SUCCESS! -- 5 Passed | 0 Failed | 2 Pending | 1 Skipped\n"), ended("pass", "p", "TestP"), ended("pass", "p", "")),
		Entry("skipped tests and subtests", count{passed: 1, skipped: 2},
			ended("skip", "p", "TestA"), ended("skip", "p", "TestB/c"), ended("pass", "p", "TestB"), ended("pass", "p", "")),
		Entry("a package that does not build", count{failed: 1}, ended("fail", "p", "")),
		Entry("a package that ended outside its tests", count{passed: 1, failed: 1},
			ended("pass", "p", "TestA"), ended("fail", "p", "")),
		Entry("a package without tests as nothing", count{}, ended("skip", "p", "")),
	)

	It("shows the output of what failed, and of nothing else", func() {
		var shown strings.Builder
		_, err := read(stream(
			said("p", "TestP", "all is well\n"), ended("pass", "p", "TestP"), ended("pass", "p", ""),
			said("q", "TestQ", "not so here\n"), ended("fail", "q", "TestQ"), ended("fail", "q", ""),
		), &shown)
		Expect(err).NotTo(HaveOccurred())
		Expect(shown.String()).To(ContainSubstring("not so here"))
		Expect(shown.String()).NotTo(ContainSubstring("all is well"))
	})
})

var _ = Describe("verdict", func() {
	DescribeTable("refuses",
		func(c count, why string) {
			Expect(verdict([]module{{dir: "some/where", count: c}})).To(MatchError(ContainSubstring("some/where: " + why)))
		},
		Entry("a failure", count{passed: 1, failed: 1}, "1 failed"),
		Entry("a spec that was left out", count{passed: 1, skipped: 1}, "1 skipped"),
		Entry("a module that ran nothing", count{}, "ran nothing"),
	)

	It("takes a module whose every spec ran and passed", func() {
		Expect(verdict([]module{{count: count{passed: 1}}})).To(Succeed())
	})
})

var _ = Describe("insert", func() {
	cells := []cell{{"14.2", "1.26.8", "pgx", count{passed: 5, failed: 1, skipped: 2}, 61 * time.Second}}

	It("replaces what stands between the comments", func() {
		text, err := insert([]byte("before\n"+opening+"| old |\n"+closing+"after\n"), cells)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(And(HavePrefix("before\n"+opening), HaveSuffix("| 14.2 | 1.26.8 | pgx | 6 | 2 | 61 |\n"+closing+"after\n")))
		Expect(string(text)).NotTo(ContainSubstring("old"))
	})

	DescribeTable("refuses a text without them",
		func(text string) {
			_, err := insert([]byte(text), cells)
			Expect(err).To(MatchError(ContainSubstring("are missing")))
		},
		Entry("both", "text\n"),
		Entry("the first", closing),
		Entry("the second", opening),
	)
})

var _ = Describe("faultless", func() {
	It("names the cell in which something failed", func() {
		Expect(faultless([]cell{{server: "14.2", toolchain: "1.26.8", driver: "pgx", count: count{failed: 1}}})).
			To(MatchError(ContainSubstring("PostgreSQL 14.2, Go 1.26.8, pgx: 1 failed")))
	})
})

var _ = Describe("modules", func() {
	It("are the go.mod files with Go files of their own", func() {
		root := GinkgoT().TempDir()
		for _, name := range []string{
			"go.mod", "a.go", "internal/pinned/go.mod", "internal/deep/go.mod", "internal/deep/er/b.go", ".hidden/go.mod", ".hidden/c.go",
		} {
			path := filepath.Join(root, name)
			Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
			Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
		}
		Expect(modules(root)).To(ConsistOf(root, filepath.Join(root, "internal/deep")))
	})
})

func said(pkg, test, output string) event {
	return event{Action: "output", Package: pkg, Test: test, Output: output}
}

func ended(action, pkg, test string) event {
	return event{Action: action, Package: pkg, Test: test}
}

func stream(events ...event) *bufio.Reader {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	for _, e := range events {
		Expect(encoder.Encode(e)).To(Succeed())
	}
	return bufio.NewReader(strings.NewReader(text.String()))
}
