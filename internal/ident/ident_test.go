package ident_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/ident"
)

var _ = Describe("Check", func() {
	DescribeTable("takes every name that all backends can store", func(id string) {
		Expect(ident.Check("work ID", id)).To(Succeed())
	},
		Entry("a plain one", "billing-run-2026-10"),
		Entry("one of the greatest length", strings.Repeat("x", ident.MaxBytes)),
		Entry("spaces, quotes and newlines", " a'b\"c%\n"),
		Entry("an emoji", "🦫"),
	)

	DescribeTable("refuses what one of them cannot store, naming field and value", func(id, says string) {
		Expect(ident.Check("work ID", id)).To(MatchError(And(HavePrefix("work ID "), ContainSubstring(says))))
	},
		Entry("the empty name", "", "is empty"),
		Entry("a name too long", strings.Repeat("x", ident.MaxBytes+1), "has 1025 bytes, more than 1024"),
		Entry("invalid UTF-8", "a\xff", `"a\xff" is not valid UTF-8`),
		Entry("NUL", "a\x00b", `"a\x00b" holds a NUL byte`),
	)

	It("counts bytes, not letters", func() {
		Expect(ident.Check("work ID", strings.Repeat("ü", ident.MaxBytes/2))).To(Succeed())
		Expect(ident.Check("work ID", strings.Repeat("ü", ident.MaxBytes/2)+"x")).NotTo(Succeed())
	})

	It("keeps a name that is too long out of its error", func() {
		Expect(ident.Check("work ID", strings.Repeat("x", 1<<20)).Error()).To(HaveLen(
			len("work ID \"\"… has 1048576 bytes, more than 1024") + 32))
	})
})
