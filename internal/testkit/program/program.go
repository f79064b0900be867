// Package program runs programs of this repository as a user would, and compares
// what they print with golden files.
//
// All functions run inside Ginkgo nodes and report failures there.
package program

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// EnvUpdate rewrites the golden files when it is set to 1.
const EnvUpdate = "WORKLEASE_UPDATE_GOLDEN"

// Build compiles the programs that pattern matches in the current directory and
// returns the directory of their binaries, which are named after their packages.
// It is removed with the node.
func Build(ctx context.Context, pattern string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	out, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator), pattern).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "go build: %s", out)
	return dir
}

// Output runs binary and returns what it printed to its standard output. It fails
// unless the program succeeds and prints nothing to its standard error.
func Output(ctx context.Context, binary string, args ...string) string {
	GinkgoHelper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	Expect(err).NotTo(HaveOccurred(), "it printed:\n%s%s", &stdout, &stderr)
	Expect(stderr.String()).To(BeEmpty())
	return stdout.String()
}

// MatchGolden compares output, masked, with the file.
func MatchGolden(output, file string) {
	GinkgoHelper()
	masked := Mask(output)
	if os.Getenv(EnvUpdate) == "1" {
		Expect(os.WriteFile(file, []byte(masked), 0o644)).To(Succeed())
	}
	golden, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred(), "%s=1 writes it", EnvUpdate)
	Expect(masked).To(Equal(string(golden)), "%s=1 rewrites %s", EnvUpdate, file)
}

// masks hide what differs from one run to the next.
var masks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ns|µs|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`(?i)(token[ =:"]+)\d+`), "${1}N"},
	{regexp.MustCompile(`(process )\d+`), "${1}N"},
}

// Mask returns output with its times, durations, fencing tokens and process ids
// masked.
func Mask(output string) string {
	for _, m := range masks {
		output = m.pattern.ReplaceAllString(output, m.by)
	}
	return output
}
