// Package baseline holds what operations cost, where that does not depend on the
// machine, to what they cost when it was last stored: round trips on PostgreSQL,
// allocations in the core and in the memory backend.
//
// A change that costs more fails here, and so does one that costs less, so that it
// is stored and kept:
//
//	go test ./internal/baseline -update
package baseline_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	file  = "testdata/baseline.txt"
	ttl   = time.Hour
	bound = time.Minute // of specs
)

var update = flag.Bool("update", false, "store what is measured")

func TestBaseline(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/baseline")
}

// operation is something whose cost is stored, under its name.
type operation struct {
	name string
	do   func(ctx context.Context) error
}

// stored is the baseline; what is measured while updating goes into it.
var stored map[string]int

var _ = BeforeSuite(func() {
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	stored = parse(string(text))
})

var _ = AfterSuite(func() {
	if *update {
		Expect(os.WriteFile(file, []byte(format(stored)), 0o644)).To(Succeed())
	}
})

// expect holds what was measured against the baseline.
func expect(name string, measured int) {
	GinkgoHelper()
	if *update {
		stored[name] = measured
		return
	}
	Expect(stored).To(HaveKeyWithValue(name, measured),
		"%s: %d in place of the stored one; if that is meant: go test ./internal/baseline -update", name, measured)
}

// parse reads lines of a name, spaces and a number.
func parse(text string) map[string]int {
	GinkgoHelper()
	values := make(map[string]int)
	for line := range strings.Lines(text) {
		at := strings.LastIndex(line, " ")
		var n int
		_, err := fmt.Sscan(line[at:], &n)
		Expect(err).NotTo(HaveOccurred(), line)
		values[strings.TrimSpace(line[:at])] = n
	}
	return values
}

func format(values map[string]int) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&text, "%-64s %d\n", name, values[name])
	}
	return text.String()
}

// unless drops the error that was wanted, and makes one of none.
func unless(err, wanted error) error {
	switch {
	case err == nil:
		return fmt.Errorf("no %w", wanted)
	case errors.Is(err, wanted):
		return nil
	default:
		return err
	}
}

// must returns value. It is for what stands before any spec.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
