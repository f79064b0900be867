package conformance_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/backend/conformance"
)

// faultEnv names the fault of the backend that this process tries. Ginkgo runs
// one suite a process, so each fault has a child process of its own.
const faultEnv = "WORKLEASE_CONFORMANCE_FAULT"

var _ = func() bool {
	if fault, ok := os.LookupEnv(faultEnv); ok {
		return Describe("suite:", conformance.RunSuite(faults[fault]))
	}
	return Describe("RunSuite", func() {
		BeforeEach(func() {
			before := gleak.Goroutines()
			DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
		})
		teethSpecs()
	})
}()

func teethSpecs() {
	It("passes a backend that has no fault", SpecTimeout(2*time.Minute), func(ctx SpecContext) {
		Expect(failures(ctx, "none")).To(BeEmpty())
	})

	DescribeTable("fails a backend that has one fault, in the specs that speak of it",
		func(ctx SpecContext, fault string, specs ...string) {
			failed := failures(ctx, fault, specs...)
			for _, spec := range specs {
				Expect(failed).To(ContainElement(ContainSubstring(spec)))
			}
		},
		bites("no exit capture",
			"a handoff tells each of three holders in a row how the one before it left",
			"Release records the exit, keeps the state and frees the lease at once",
			"clients at once get answers that the model gives to the same calls one by one"),
		bites("Checkpoint ignores the token",
			"Checkpoint is refused and changes nothing with the token of the holder's own earlier lease",
			"Checkpoint is refused and changes nothing with the zero token"),
		bites("Release leaves the lease unexpired",
			"Release records the exit, keeps the state and frees the lease at once",
			"8a: a Renew after Release(finished) is refused as expired, and another holder acquires"),
		bites("RenewBatch answers in another order",
			"RenewBatch has one verdict for each record, in their order",
			"RenewBatch takes a record twice"),
		bites("RenewBatch ignores the token",
			"RenewBatch is refused and changes nothing with the token of the holder's own earlier lease",
			"RenewBatch has one verdict for each record, in their order"),
		bites("slices are shared",
			"18c: a slice that its caller edits after Checkpoint changes nothing stored",
			"18c: a slice that its reader edits changes nothing stored"),
		bites("Forget ignores the holder",
			"Forget is refused and changes nothing of another holder on a live lease"),
		bites("a holder acquires its own live lease",
			"Acquire refuses a holder's own live lease",
			"10b: a holder's own lease is held for that lease's ttl"),
		bites("ReadCheckpoint drops PrevHolderID",
			"ReadCheckpoint gives the previous holder's state, exit and name",
			"9c: the next holder of retired work sees that, by whom, and the state",
			"clients at once get answers that the model gives to the same calls one by one"),
		bites("every checkpoint is tentative",
			"a tentative checkpoint is said of no call outside a transaction"),
		bites("two that ask at once both acquire",
			"concurrent use has one winner among 64"),
		bites("ForceRelease keeps the token",
			"ForceRelease fences the holder before anybody takes over, so that nothing revives the lease of a live lease",
			"ForceRelease fences the holder before anybody takes over, so that nothing revives the lease of one that has lapsed"),
		bites("ForceRelease ignores the token",
			"ForceRelease touches no lease but the one of that token",
			"ForceRelease is refused and changes nothing with a stale token of a live lease"),
		bites("List gives states unasked",
			"List gives the state only when it is asked for"),
		bites("List goes on after its context",
			"List 7a: ends with its context, between two leases too"),
		bites("List reads a prefix as a pattern",
			"List takes a prefix and a holder for the bytes that they are"),
		bites("it panics",
			"concurrent use has one winner among 64",
			"concurrent use 11b: no Renew succeeds that began after Release had",
			"concurrent use hands a lease over once while its holder forgets it",
			"clients at once get answers that the model gives to the same calls one by one"),
	)

	It("says so in one line where there is no backend", SpecTimeout(2*time.Minute), func(ctx SpecContext) {
		failed := failedSpecs(ctx, "there is none", "Acquire returns the lease that was asked for")
		Expect(failed).To(HaveLen(1))
		Expect(failed[0].Failure.Message).To(HavePrefix("newBackend returned no backend"))
		Expect(failed[0].AdditionalFailures).To(BeEmpty())
	})
}

func bites(fault string, specs ...string) TableEntry {
	args := []any{SpecTimeout(2 * time.Minute), fault}
	for _, spec := range specs {
		args = append(args, spec)
	}
	return Entry(fault, args...)
}

// failures runs the suite in a child process on the backend with the fault, or only
// the specs that have these names, and returns the names of those that failed.
func failures(ctx SpecContext, fault string, only ...string) []string {
	GinkgoHelper()
	var names []string
	for _, spec := range failedSpecs(ctx, fault, only...) {
		names = append(names, strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " "))
	}
	return names
}

// failedSpecs is failures with all that there is to say of each.
func failedSpecs(ctx SpecContext, fault string, only ...string) types.SpecReports {
	GinkgoHelper()
	Expect(faults).To(HaveKey(fault))
	report := filepath.Join(GinkgoT().TempDir(), "report.json")
	var focus []string
	for _, name := range only {
		focus = append(focus, regexp.QuoteMeta(name))
	}
	child := exec.CommandContext(ctx, os.Args[0], "-ginkgo.json-report="+report, "-ginkgo.succinct", "-ginkgo.no-color",
		"-ginkgo.focus="+strings.Join(focus, "|"))
	child.Env = append(os.Environ(), faultEnv+"="+fault)
	output, err := child.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}

	text, readErr := os.ReadFile(report)
	Expect(readErr).NotTo(HaveOccurred(), string(output))
	var reports []types.Report
	Expect(json.Unmarshal(text, &reports)).To(Succeed())
	Expect(reports).To(HaveLen(1))
	Expect(reports[0].SpecReports.CountWithState(types.SpecStatePassed|types.SpecStateFailureStates)).To(BeNumerically(">", 0), string(output))

	failed := reports[0].SpecReports.WithState(types.SpecStateFailureStates)
	Expect(err != nil).To(Equal(len(failed) > 0), string(output))
	return failed
}
