package serverfaults

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend/postgres"
)

func (s *subject) poolerSpecs() {
	s.transactionsThroughPooler()

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

// transactionsThroughPooler makes transactions of the caller's through the pooler, some of them
// rolled back, from more leases at once than it has connections.
func (s *subject) transactionsThroughPooler() {
	It("20a: takes checkpoints inside the caller's transactions with WithTransactionPooler, none of them twice or not at all", limit, func(ctx SpecContext) {
		const leases, batches = 12, 20
		db := s.database()
		run(ctx, db, `CREATE TABLE ledger (work_id text, entry int)`)
		through := s.open(s.unprepared(transactionPooler(s.dsn)))
		b := on(through, postgres.WithTransactionPooler())
		l := holder(b, "a", time.Minute)
		var all sync.WaitGroup
		for n := range leases {
			all.Go(func() {
				defer GinkgoRecover()
				token := acquire(ctx, l, fmt.Sprint("id-", n))
				for entry := 1; entry <= batches; entry++ {
					for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
						tx := begin(ctx, through, nil)
						Expect(b.Guard(ctx, tx, token)).To(Succeed())
						execute(ctx, tx, `INSERT INTO ledger VALUES ($1, $2)`, token.WorkID(), entry)
						Expect(l.Checkpoint(postgres.WithTx(ctx, tx), token, fmt.Append(nil, entry))).To(Succeed())
						Expect(end(tx)).To(Succeed())
					}
				}
			})
		}
		all.Wait()

		var right int
		Expect(db.QueryRowContext(ctx, `
			SELECT count(*) FROM worklease_leases AS l
			WHERE convert_from(checkpoint, 'UTF8') = $1::int::text
			AND $1 = (SELECT count(*) FROM ledger WHERE work_id = l.work_id)
			AND $1 = (SELECT count(DISTINCT entry) FROM ledger WHERE work_id = l.work_id)`, batches).Scan(&right)).To(Succeed())
		Expect(right).To(Equal(leases))
	})
}

// unprepared returns dsn with the setting that a pooler asks of its user for pgx.
func (s *subject) unprepared(dsn string) string {
	if s.driver == "pgx" {
		return with(dsn, "default_query_exec_mode", "exec")
	}
	return dsn
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
