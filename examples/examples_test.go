//go:build unix

package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/internal/testkit/pgtest"
	"github.com/aetomala/worklease/internal/testkit/program"
)

func TestExamples(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "examples")
}

// limit bounds what is slow on a busy machine: building, or running one program.
const limit = NodeTimeout(2 * time.Minute)

var binaries, dsn string

var _ = BeforeSuite(func(ctx context.Context) {
	binaries = program.Build(ctx, "./...")
	dsn = pgtest.Database()
}, limit)

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

var _ = Describe("Each example", func() {
	DescribeTable("prints its story without infrastructure",
		func(ctx context.Context, name string) {
			output := program.Output(ctx, filepath.Join(binaries, name))
			program.MatchGolden(output, golden(name))
		},
		entries(func(string) bool { return true }),
	)

	DescribeTable("tells the same story on PostgreSQL where it takes a DSN",
		func(ctx context.Context, name string) {
			output := program.Output(ctx, filepath.Join(binaries, name), "-dsn", dsn)
			program.MatchGolden(output, goldenOnPostgres(name))
		},
		entries(takesDSN),
	)

	DescribeTable("says so where its arguments make no sense",
		func(ctx context.Context, name, want string, args ...string) {
			out, err := exec.CommandContext(ctx, filepath.Join(binaries, name), args...).CombinedOutput()
			Expect(err).To(HaveOccurred())
			Expect(string(out)).To(ContainSubstring(want))
		},
		Entry("a database for lifecycle", limit, "lifecycle", `["-dsn" "x"]: this takes no arguments`, "-dsn", "x"),
		Entry("a node without a database", limit, "cluster-singleton", "-node needs -dsn", "-node", "a"),
		Entry("a process without a database", limit, "partition-processor", "-process needs -dsn", "-process", "a"),
	)

	It("has a line in README.md that runs it", func() {
		readme, err := os.ReadFile("README.md")
		Expect(err).NotTo(HaveOccurred())
		for _, name := range programs() {
			Expect(string(readme)).To(ContainSubstring("`go run ./examples/" + name + "`"))
		}
	})
})

// golden is the file with what a program prints.
func golden(name string) string { return filepath.Join(name, "output.golden") }

// goldenOnPostgres is the same file unless a program has one of its own.
func goldenOnPostgres(name string) string {
	own := filepath.Join(name, "output-dsn.golden")
	if _, err := os.Stat(own); err == nil {
		return own
	}
	return golden(name)
}

func takesDSN(name string) bool {
	source, err := os.ReadFile(filepath.Join(name, "main.go"))
	return err == nil && strings.Contains(string(source), `flag.String("dsn"`)
}

// entries returns an entry for each program that suits.
func entries(suits func(name string) bool) []TableEntry {
	var entries []TableEntry
	for _, name := range programs() {
		if suits(name) {
			entries = append(entries, Entry(name, limit, name))
		}
	}
	return entries
}

// programs returns the names of all.
func programs() []string {
	files, err := filepath.Glob("*/main.go")
	if err != nil {
		panic(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Dir(file))
	}
	return names
}
