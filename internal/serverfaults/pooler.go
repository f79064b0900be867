package serverfaults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func (s *subject) poolerSpecs() {
	It("20a: mixes nothing up with WithTransactionPooler", limit, func(ctx SpecContext) {
		s.database()
		total := s.crowd(ctx, transactionPooler(s.dsn), true)
		Expect(total.Wrong).To(BeEmpty())
		Expect(total.Errors).To(BeEmpty())
		Expect(total.Calls).To(Equal(processes * workers * rounds * callsOfRound))
	})

	It("20a: has errors without it that name the option, and nothing written by the wrong statement", limit, func(ctx SpecContext) {
		db := s.database()
		total := s.crowd(ctx, transactionPooler(s.dsn), false)
		Expect(total.Wrong).To(BeEmpty())
		named := 0
		for _, text := range total.Errors {
			if strings.Contains(text, "postgres.WithTransactionPooler") {
				named++
			} else {
				AddReportEntry("unnamed", text)
			}
		}
		Expect(named).To(BeNumerically(">", 0))
		AddReportEntry("calls, failed, naming the option", fmt.Sprint(total.Calls, len(total.Errors), named))

		var rows, strange int
		Expect(db.QueryRowContext(ctx, `
			SELECT count(*), count(*) FILTER (WHERE
				work_id NOT LIKE 'id-%'
				OR holder_id <> 'holder of ' || work_id
				OR convert_from(checkpoint, 'UTF8') <> 'state of ' || work_id
				OR exit_mode <> 'finished'
				OR prev_exit_mode <> 'none')
			FROM worklease_leases`).Scan(&rows, &strange)).To(Succeed())
		Expect(rows).To(BeNumerically(">", 0))
		Expect(strange).To(BeZero())
	})
}

const (
	processes = 4
	workers   = 12 // of each process
	rounds    = 8  // of each worker
)

// crowd has processes of workers call through the pooler all at once.
func (s *subject) crowd(ctx context.Context, dsn string, option bool) (total tally) {
	GinkgoHelper()
	tallies := make([]tally, processes)
	var all sync.WaitGroup
	for n := range processes {
		all.Go(func() {
			defer GinkgoRecover()
			task, err := json.Marshal(task{Driver: s.driver, DSN: dsn, Option: option, Process: n})
			Expect(err).NotTo(HaveOccurred())
			var complaints bytes.Buffer
			child := exec.CommandContext(ctx, os.Args[0])
			child.Env = append(os.Environ(), envTask+"="+string(task))
			child.Stderr = &complaints
			out, err := child.Output()
			Expect(err).NotTo(HaveOccurred(), complaints.String())
			Expect(json.Unmarshal(out, &tallies[n])).To(Succeed())
		})
	}
	all.Wait()
	for _, t := range tallies {
		total.add(t)
	}
	return total
}
