//go:build unix

package examples_test

import (
	"context"
	"os"
	"path/filepath"
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

// limit bounds one program, built and run, on a busy machine.
const limit = NodeTimeout(2 * time.Minute)

var dsn string

var _ = BeforeSuite(func() { dsn = pgtest.Database() })

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

// inMemory and onPostgres name the golden file beside each program.
const (
	inMemory   = "output.golden"
	onPostgres = "output-dsn.golden"
)

var _ = Describe("Each example", func() {
	DescribeTable("prints its story without infrastructure",
		func(ctx context.Context, name string) {
			output := program.Output(ctx, program.Build(ctx, name))
			program.MatchGolden(output, filepath.Join(name, inMemory))
		},
		func(name string) string { return name },
		programs(inMemory),
	)

	DescribeTable("prints the same story on PostgreSQL where it takes a DSN",
		func(ctx context.Context, name string) {
			output := program.Output(ctx, program.Build(ctx, name), "-dsn", dsn)
			program.MatchGolden(output, filepath.Join(name, onPostgres))
		},
		func(name string) string { return name },
		programs(onPostgres),
	)

	It("has a golden file, and a line in README.md that runs it", func() {
		readme, err := os.ReadFile("README.md")
		Expect(err).NotTo(HaveOccurred())
		for _, name := range names("*/main.go") {
			Expect(filepath.Join(name, inMemory)).To(BeARegularFile())
			Expect(string(readme)).To(ContainSubstring("go run ./examples/" + name))
		}
	})
})

// programs returns an entry for each program that has the golden file, all where
// golden files are being written.
func programs(golden string) []TableEntry {
	pattern := "*/" + golden
	if os.Getenv(program.EnvUpdate) == "1" && golden == inMemory {
		pattern = "*/main.go"
	}
	var entries []TableEntry
	for _, name := range names(pattern) {
		entries = append(entries, Entry(nil, limit, name))
	}
	return entries
}

func names(pattern string) []string {
	files, err := filepath.Glob(pattern)
	if err != nil {
		panic(err)
	}
	var dirs []string
	for _, file := range files {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}
