package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// missing are the cases that have no spec yet: none. It stays so.
var missing = []string{}

// none stands in docs/faults.md where a case has no spec.
const none = "-"

var (
	row      = regexp.MustCompile(`(?m)^\| (\d+[a-z]) \| .+ \| (\S+) \|$`)
	caseSpec = regexp.MustCompile(`^(\d+[a-z]): `)
)

var _ = Describe("docs/faults.md", func() {
	var (
		listed map[string]string   // the file that stands beside each case
		specs  map[string][]string // the files with specs of each case
	)
	BeforeEach(func() {
		listed, specs = listedCases(), caseSpecs()
	})

	It("names for each case a file that has its spec", func() {
		var wrong []string
		for number, file := range listed {
			if file != none && !slices.Contains(specs[number], file) {
				wrong = append(wrong, fmt.Sprintf("%s is not in %s but in %q", number, file, specs[number]))
			}
		}
		Expect(wrong).To(BeEmpty())
	})

	It("lists every case that has a spec", func() {
		var absent []string
		for number, files := range specs {
			if _, found := listed[number]; !found {
				absent = append(absent, fmt.Sprintf("%s of %q", number, files))
			}
		}
		Expect(absent).To(BeEmpty())
	})

	It("calls a case missing only while it is", func() {
		var open []string
		for number, file := range listed {
			if file == none {
				open = append(open, number)
				Expect(specs[number]).To(BeEmpty(), number+" has a spec by now")
			}
		}
		Expect(open).To(ConsistOf(missing))
	})
})

func listedCases() map[string]string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "faults.md"))
	Expect(err).NotTo(HaveOccurred())
	listed := make(map[string]string)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		Expect(listed).NotTo(HaveKey(m[1]))
		listed[m[1]] = m[2]
	}
	Expect(listed).NotTo(BeEmpty())
	return listed
}

// caseSpecs reads the names of specs out of all Go files, whatever their build
// tags: some stand in suites that are no tests themselves.
func caseSpecs() map[string][]string {
	GinkgoHelper()
	specs := make(map[string][]string)
	walk(func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
		Expect(err).NotTo(HaveOccurred())
		for name := range names(file) {
			if m := caseSpec.FindStringSubmatch(name); m != nil && !slices.Contains(specs[m[1]], path) {
				specs[m[1]] = append(specs[m[1]], path)
			}
		}
	})
	return specs
}

// names yields the names of a file's specs and of the tables' entries.
func names(file *ast.File) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for n := range ast.Preorder(file) {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				continue
			}
			function, ok := call.Fun.(*ast.Ident)
			if !ok || !slices.Contains([]string{"It", "Entry", "DescribeTable"}, function.Name) {
				continue
			}
			literal, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				continue
			}
			name, err := strconv.Unquote(literal.Value)
			if err == nil && !yield(name) {
				return
			}
		}
	}
}

// walk visits the repository's Go files by their paths from the root.
func walk(visit func(path string)) {
	GinkgoHelper()
	tree := os.DirFS(root)
	Expect(fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) == ".go":
			visit(path)
		}
		return nil
	})).To(Succeed())
}
