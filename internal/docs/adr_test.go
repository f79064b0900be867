package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// page is the most lines of a decision.
const page = 75

var _ = Describe("docs/adr", func() {
	files, err := filepath.Glob(filepath.Join(root, "docs/adr/[0-9]*.md"))
	if err != nil || len(files) == 0 {
		panic("no decisions found")
	}
	for _, file := range files {
		name := filepath.Base(file)
		It("has every part of a decision on a page, and is in the index: "+name, func() {
			text := read(filepath.Join("docs/adr", name))
			Expect(strings.Count(text, "\n")).To(BeNumerically("<=", page))
			Expect(headings(text)).To(Equal([]string{"Status", "Context", "Decision", "Consequences", "Rejected", "Kept by"}))
			Expect(read("docs/adr/README.md")).To(ContainSubstring("(" + name + ")"))
		})

		It("is kept by what there is: "+name, func() {
			text := read(filepath.Join("docs/adr", name))
			_, kept, found := strings.Cut(text, "## Kept by\n")
			Expect(found).To(BeTrue())
			if strings.Contains(text, "Proposed") {
				return
			}
			paths := regexp.MustCompile("`([a-z_/]+(?:_test)?\\.go|internal/[a-z/]+)`").FindAllStringSubmatch(kept, -1)
			numbers := regexp.MustCompile(`\b\d+[a-z]\b`).FindAllString(kept, -1)
			Expect(len(paths) + len(numbers)).To(BeNumerically(">", 0))
			for _, path := range paths {
				_, err := os.Stat(filepath.Join(root, path[1]))
				Expect(err).NotTo(HaveOccurred())
			}
			specs := caseSpecs()
			for _, number := range numbers {
				Expect(specs).To(HaveKey(number))
			}
			for _, quoted := range regexp.MustCompile("(?s)`([a-z_/]+\\.go)`, \"([^\"]+)\"").FindAllStringSubmatch(kept, -1) {
				Expect(read(quoted[1])).To(ContainSubstring(strings.Join(strings.Fields(quoted[2]), " ")))
			}
		})
	}
})

// headings returns those of the second level.
func headings(text string) []string {
	var titles []string
	for _, line := range strings.Split(text, "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			titles = append(titles, title)
		}
	}
	return titles
}
