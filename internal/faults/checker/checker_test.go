package checker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/faults/checker"
	"github.com/aetomala/worklease/internal/faults/history"
)

func recorded(name string) *history.History {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	Expect(err).NotTo(HaveOccurred())
	events, err := history.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	h, err := history.Join(events)
	Expect(err).NotTo(HaveOccurred())
	return h
}

// long is a history of n holders in a row, of which each reads what the one so
// many before it wrote.
func long(n int, back func(int) int) *history.History {
	GinkgoHelper()
	var events []history.Event
	at := int64(0)
	do := func(seq int, e history.Event) {
		e.ID, e.Proc, e.Seq = "w0", "p", int64(seq)
		if e.Token > uint64(n) {
			e.Proc = checker.Final
		}
		for _, kind := range []history.Kind{history.Call, history.Return} {
			at++
			e.At, e.Kind, e.Result = at, kind, history.OK
			events = append(events, e)
		}
	}
	var state string
	for i := 1; i <= n+1; i++ {
		state = ""
		read := history.Event{Op: history.Read, Token: uint64(i), Exit: "none"}
		if i > 2 {
			state = fmt.Sprint(i - back(i))
			read.Exit, read.Prev, read.State = "finished", "p", state
		} else if i == 2 {
			read.Exit, read.Prev, read.State = "finished", "p", "1"
		}
		do(4*i, history.Event{Op: history.Acquire, Token: uint64(i)})
		do(4*i+1, read)
		if i <= n {
			do(4*i+2, history.Event{Op: history.Checkpoint, Token: uint64(i), State: fmt.Sprint(i)})
			do(4*i+3, history.Event{Op: history.Release, Token: uint64(i), Exit: "finished"})
		}
	}
	events = append(events, history.Event{
		At: at, Kind: history.Row, Proc: "table", ID: "w0", Holder: checker.Final, Token: uint64(n + 1), State: state,
	})
	h, err := history.Join(events)
	Expect(err).NotTo(HaveOccurred())
	return h
}

// bad are the recorded histories of a library that breaks its promises.
var bad = map[string]checker.Rule{
	"token-reused":          checker.TokenReused,
	"token-order":           checker.TokenOrder,
	"stale-renew":           checker.StaleCall,
	"stale-read":            checker.StaleCall,
	"stale-checkpoint":      checker.StaleCall,
	"renew-after-release":   checker.CallAfterEnd,
	"renew-after-forget":    checker.CallAfterEnd,
	"window-overlap":        checker.WindowOverlap,
	"previous-exit":         checker.PreviousHolder,
	"previous-holder":       checker.PreviousHolder,
	"previous-missing":      checker.PreviousHolder,
	"previous-changes":      checker.PreviousHolder,
	"restore-as-abandoned":  checker.PreviousHolder,
	"state-older":           checker.StateLost,
	"state-missing":         checker.StateLost,
	"state-never-sent":      checker.StateLost,
	"state-overtaken":       checker.StateLost,
	"fenced-falsely":        checker.FalseVerdict,
	"expired-falsely":       checker.FalseVerdict,
	"not-acquirable":        checker.NotAcquirable,
	"table-token":           checker.TableDiffers,
	"table-row-missing":     checker.TableDiffers,
	"ledger-twice":          checker.LedgerDiffers,
	"ledger-lost":           checker.LedgerDiffers,
	"ledger-ahead":          checker.LedgerDiffers,
	"ledger-without-cursor": checker.LedgerDiffers,
}

var _ = Describe("Check", func() {
	DescribeTable("finds nothing in a good history", func(name string) {
		Expect(checker.Check(recorded(name))).To(BeEmpty())
	},
		Entry("whose operations without an answer happened", "good"),
		Entry("whose operations without an answer did not", "good-other-outcomes"),
	)

	for name, rule := range bad {
		It("finds "+string(rule)+" in "+name, func() {
			Expect(checker.Check(recorded(name))).To(ContainElement(HaveField("Rule", rule)))
		})
	}

	It("is shown every recorded bad history", func() {
		files, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			if !strings.HasPrefix(name, "good") {
				Expect(bad).To(HaveKey(name))
			}
		}
	})

	It("has a recorded bad history for every rule that can be broken", func() {
		rules := map[checker.Rule]bool{}
		for _, rule := range bad {
			rules[rule] = true
		}
		Expect(rules).To(HaveLen(11))
	})

	It("judges a long history, in which each holder reads what the last one wrote", func() {
		Expect(checker.Check(long(1500, func(int) int { return 1 }))).To(BeEmpty())
	})

	It("finds the one holder of a long history that missed a checkpoint", func() {
		missed := func(n int) int {
			if n == 1300 {
				return 2
			}
			return 1
		}
		Expect(checker.Check(long(1500, missed))).To(ConsistOf(HaveField("Rule", checker.StateLost)))
	})

	It("counts operations, handoffs and what the ledgers have", func() {
		s := checker.Summarize(recorded("good"))
		Expect(s.Operations).To(Equal(18))
		Expect(s.Handoffs).To(Equal(3))
		Expect(s.Audits).To(Equal(2))
		Expect(s.Entries).To(Equal(int64(7)))
	})
})
