package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// proof is one spec in the last column of docs/guarantees.md: a file and words of
// it, or numbers of cases.
var (
	proof = regexp.MustCompile("^`([^`]+)` (.+)$")
	cases = regexp.MustCompile(`^cases? (.+)$`)
)

var _ = Describe("docs/guarantees.md", func() {
	It("names a spec that there is for each promise", func() {
		specs := caseSpecs()
		promises := 0
		for _, row := range rows(read("docs/guarantees.md"), 2) {
			promises++
			for _, p := range strings.Split(row[1], "; ") {
				Expect(missing(p, specs)).To(BeEmpty(), "%s: %s", row[0], p)
			}
		}
		Expect(promises).To(BeNumerically(">", 50))
	})

	It("names cases that there are for each failure", func() {
		specs := caseSpecs()
		for _, row := range rows(read("docs/guarantees.md"), 4) {
			for _, number := range regexp.MustCompile(`\b\d+[a-z]\b`).FindAllString(row[3], -1) {
				Expect(specs).To(HaveKey(number), row[0])
			}
		}
	})

	DescribeTable("would not get away with",
		func(p string) { Expect(missing(p, caseSpecs())).NotTo(BeEmpty()) },
		Entry("a file that is not there", "`nothing_test.go` does it"),
		Entry("a spec that is not there", "`lease_test.go` solves the halting problem"),
		Entry("a case that is not there", "cases 1a, 99z"),
		Entry("no spec at all", "trust us"),
	)
})

// rows returns the cells of all rows of tables with so many columns.
func rows(text string, columns int) [][]string {
	var rows [][]string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| --- ") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
		header := cells[len(cells)-1] == "spec" || strings.HasSuffix(cells[len(cells)-1], "and its spec")
		if len(cells) == columns && !header {
			rows = append(rows, cells)
		}
	}
	return rows
}

// caseSpecs returns the specs of docs/faults.md by the number of their case.
func caseSpecs() map[string]string {
	GinkgoHelper()
	specs := map[string]string{}
	for _, row := range rows(read("docs/faults.md"), 3) {
		specs[row[0]] = row[2]
	}
	return specs
}

// missing says what a proof names that is not there.
func missing(p string, specs map[string]string) string {
	if match := cases.FindStringSubmatch(p); match != nil {
		for _, number := range strings.Split(match[1], ", ") {
			if specs[number] == "" {
				return "no case " + number
			}
		}
		return ""
	}
	match := proof.FindStringSubmatch(p)
	if match == nil {
		return "no proof"
	}
	text, err := os.ReadFile(filepath.Join(root, match[1]))
	if err != nil {
		return err.Error()
	}
	if !strings.Contains(string(text), match[2]) {
		return "no such words"
	}
	return ""
}
