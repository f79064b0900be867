// Package arch_test holds the repository to its own plan: who imports whom, what
// is required, which cases have a spec, and where the README's code stands.
package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// root is the repository, from here.
	root = "../.."

	module = "github.com/aetomala/worklease"
)

func TestArch(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "architecture")
}

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// place is the package's directory from the root, which is empty itself.
func (p goPackage) place() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func goList(ctx SpecContext, args ...string) []goPackage {
	GinkgoHelper()
	var packages []goPackage
	out := goTool(ctx, append([]string{"list", "-json=ImportPath,Standard,Imports"}, args...)...)
	for decoder := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		Expect(err).NotTo(HaveOccurred())
		packages = append(packages, p)
	}
}

func goTool(ctx SpecContext, args ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	return string(out)
}
