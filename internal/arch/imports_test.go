package arch_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const bound = time.Minute

// leaves may be imported by the whole library. They know the backends' seam and
// each other.
var leaves = []string{
	"internal/agenda", "internal/batch", "internal/bounded", "internal/claim", "internal/gate",
	"internal/ident", "internal/pacing", "internal/wake", "internal/watch", "internal/window",
}

// arrows say which packages of the module each package of the library may
// import beside the leaves; the root is the empty name.
var arrows = map[string][]string{
	"":                          {"backend"},
	"backend":                   {},
	"backend/memory":            {"backend"},
	"backend/postgres":          {"backend"},
	"backend/conformance":       {"backend"},
	"backend/postgres/pqlisten": {"backend/postgres"},
	"checkpoint":                {},
	"internal/tenure":           {""},
	"worker":                    {"", "internal/tenure"},
	"leader":                    {"", "internal/tenure"},
	"pool":                      {"", "internal/tenure"},
}

// leafless packages stand for themselves: strangers build on the seam and the
// suite, and a codec needs no lease.
var leafless = []string{"backend", "backend/conformance", "backend/postgres/pqlisten", "checkpoint"}

// users are programs and tests. They may import everything, and the library
// nothing of them.
var users = []string{"examples", "internal/serverfaults", "internal/tally", "internal/testkit"}

var _ = Describe("The imports", func() {
	It("follow the arrows", func(ctx SpecContext) {
		for _, p := range goList(ctx, "./...") {
			allowed, found := allowedFor(p.place())
			if !found {
				continue
			}
			for _, path := range p.Imports {
				if path == module || strings.HasPrefix(path, module+"/") {
					Expect(allowed).To(ContainElement(goPackage{ImportPath: path}.place()), "imported by "+p.ImportPath)
				}
			}
		}
	}, SpecTimeout(bound))

	It("are ruled for every package that there is", func(ctx SpecContext) {
		for _, p := range goList(ctx, "./...") {
			_, ruled := allowedFor(p.place())
			test := len(p.Imports) == 0 // a package of tests alone
			Expect(ruled || test || isUser(p.place())).To(BeTrue(), p.ImportPath+" stands in none of the tables")
		}
	}, SpecTimeout(bound))

	DescribeTable("reach the standard library alone from what users import, and a driver where they ask for it",
		func(ctx SpecContext, place string, drivers ...string) {
			for _, p := range goList(ctx, "-deps", "./"+place) {
				driver := slices.ContainsFunc(drivers, func(d string) bool { return strings.HasPrefix(p.ImportPath, d) })
				if p.Standard || driver {
					continue
				}
				_, ruled := allowedFor(p.place())
				Expect(ruled).To(BeTrue(), p.ImportPath)
			}
		},
		Entry("worklease", "", SpecTimeout(bound)),
		Entry("backend", "backend", SpecTimeout(bound)),
		Entry("backend/memory", "backend/memory", SpecTimeout(bound)),
		Entry("backend/postgres", "backend/postgres", SpecTimeout(bound)),
		Entry("backend/postgres/pqlisten", "backend/postgres/pqlisten", SpecTimeout(bound), "github.com/lib/pq"),
		Entry("checkpoint", "checkpoint", SpecTimeout(bound)),
		Entry("worker", "worker", SpecTimeout(bound)),
		Entry("leader", "leader", SpecTimeout(bound)),
		Entry("pool", "pool", SpecTimeout(bound)),
	)
})

var _ = Describe("go.mod", func() {
	It("requires the tests' three modules directly, and nothing else", func(ctx SpecContext) {
		var mod struct {
			Require []struct {
				Path     string
				Indirect bool
			}
			Replace []any
		}
		Expect(json.Unmarshal([]byte(goTool(ctx, "mod", "edit", "-json")), &mod)).To(Succeed())
		var direct []string
		for _, r := range mod.Require {
			if !r.Indirect {
				direct = append(direct, r.Path)
			}
		}
		Expect(direct).To(ConsistOf("github.com/lib/pq", "github.com/onsi/ginkgo/v2", "github.com/onsi/gomega"))
		Expect(mod.Replace).To(BeEmpty())
	}, SpecTimeout(bound))
})

// allowedFor tells which packages of the module the one at place may import,
// where it is one of the library.
func allowedFor(place string) (allowed []string, found bool) {
	if slices.Contains(leaves, place) {
		return append([]string{"backend"}, leaves...), true
	}
	allowed, found = arrows[place]
	if found && !slices.Contains(leafless, place) {
		allowed = append(slices.Clone(allowed), leaves...)
	}
	return allowed, found
}

func isUser(place string) bool {
	return slices.ContainsFunc(users, func(user string) bool {
		return place == user || strings.HasPrefix(place, user+"/")
	})
}
