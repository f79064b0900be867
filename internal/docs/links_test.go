package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The documents", func() {
	for _, doc := range documents() {
		It("link to what there is: "+doc, func() {
			text := read(doc)
			Expect(text).NotTo(BeEmpty())
			for _, link := range links(text) {
				Expect(broken(doc, link)).To(BeEmpty(), "%s links to %s", doc, link)
			}
		})
	}

	It("are found", func() {
		Expect(documents()).To(ContainElements("README.md", "UPGRADING.md", "docs/guarantees.md", "examples/README.md", ".github/CONTRIBUTING.md"))
	})

	DescribeTable("would not get away with",
		func(link string) { Expect(broken("docs/guarantees.md", link)).NotTo(BeEmpty()) },
		Entry("a file that is not there", "nothing.md"),
		Entry("a heading that is not there", "operations.md#nothing"),
		Entry("a heading of its own that is not there", "#nothing"),
		Entry("a place outside of the repository", "../../../etc/passwd"),
	)
})

// documents returns the paths of all, from the root.
func documents() []string {
	var docs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			docs = append(docs, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return docs
}

func read(doc string) string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, doc))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

var (
	fence = regexp.MustCompile("(?s)```.*?```")
	code  = regexp.MustCompile("`[^`\n]*`")
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// links returns where the text links to inside of the repository.
func links(text string) []string {
	text = code.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
	var targets []string
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(match[1], "://") && !strings.HasPrefix(match[1], "mailto:") {
			targets = append(targets, match[1])
		}
	}
	return targets
}

// broken says what is wrong with a link in doc, nothing where it leads somewhere.
func broken(doc, link string) string {
	file, heading, hasHeading := strings.Cut(link, "#")
	target := doc
	if file != "" {
		target = filepath.Join(filepath.Dir(doc), file)
	}
	if !filepath.IsLocal(target) {
		return "outside of the repository"
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		return err.Error()
	}
	if !hasHeading {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(root, target))
	if err != nil {
		return err.Error()
	}
	for _, line := range strings.Split(fence.ReplaceAllString(string(text), ""), "\n") {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") && anchor(title) == heading {
			return ""
		}
	}
	return "no such heading"
}

var punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor is what GitHub makes of a heading.
func anchor(title string) string {
	return strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
}
