package arch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	example = regexp.MustCompile(`(^|/)example[^/]*_test\.go$|^examples/.*\.go$`)
)

var _ = Describe("README.md", func() {
	It("shows only code that stands in an Example or an example program", func() {
		text, err := os.ReadFile(filepath.Join(root, "README.md"))
		Expect(err).NotTo(HaveOccurred())
		blocks := goBlock.FindAllStringSubmatchIndex(string(text), -1)
		Expect(blocks).NotTo(BeEmpty())

		sources := exampleSources()
		var homeless []string
		for _, at := range blocks {
			if !hasHome(lines(string(text[at[2]:at[3]])), sources) {
				line := 1 + strings.Count(string(text[:at[0]]), "\n")
				homeless = append(homeless, fmt.Sprintf("the block at line %d:\n%s", line, text[at[2]:at[3]]))
			}
		}
		Expect(homeless).To(BeEmpty())
	})
})

// exampleSources are the lines of each file that has examples.
func exampleSources() [][]string {
	GinkgoHelper()
	var sources [][]string
	walk(func(path string) {
		if !example.MatchString(path) {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		Expect(err).NotTo(HaveOccurred())
		sources = append(sources, lines(string(text)))
	})
	return sources
}

// hasHome reports whether the lines of a block stand, in their order, in one of
// the sources.
func hasHome(block []string, sources [][]string) bool {
	for _, source := range sources {
		left := block
		for _, line := range source {
			if len(left) > 0 && line == left[0] {
				left = left[1:]
			}
		}
		if len(left) == 0 {
			return true
		}
	}
	return false
}

// lines are those that are not empty, without their indentation.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
