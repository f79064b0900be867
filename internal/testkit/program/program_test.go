package program_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/program"
)

func TestProgram(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "program")
}

var _ = DescribeTable("Mask hides what differs from run to run and nothing else",
	func(output, want string) { Expect(program.Mask(output)).To(Equal(want)) },
	Entry("times", "at 2026-01-01T12:00:00.5Z and 2026-01-01 12:00:00+02:00", "at TIME and TIME"),
	Entry("durations", "1m30s, 2.5s, 300ms and 4µs", "DURATION, DURATION, DURATION and DURATION"),
	Entry("tokens", `token 17, fencingToken=4 "token":5`, `token N, fencingToken=N "token":N`),
	Entry("processes", "process 4711", "process N"),
	Entry("counts stay", "step 3 of 6 steps, 12 batches", "step 3 of 6 steps, 12 batches"),
)
