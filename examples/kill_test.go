//go:build unix

package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var _ = Describe("The worker of crash-recovery", func() {
	It("16b: killed with -9, it is succeeded between TTL and TTL + poll, with expired and the last acknowledged state", func(ctx SpecContext) {
		const (
			workID = "killed"
			ttl    = 2 * time.Second // of the program
			poll   = 200 * time.Millisecond
		)
		db := pgtest.OpenWithSchema(dsn)
		b, err := postgres.New(db)
		Expect(err).NotTo(HaveOccurred())
		lease, err := worklease.New(b, worklease.Config{TTL: time.Minute, HolderID: "b"})
		Expect(err).NotTo(HaveOccurred())

		worker := exec.CommandContext(ctx, filepath.Join(binaries, "crash-recovery"), "-dsn", dsn, "-be-worker-a", workID)
		worker.Stderr = os.Stderr
		out, err := worker.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(worker.Start()).To(Succeed())
		acknowledged := 0
		for events := json.NewDecoder(out); ; {
			var event struct {
				What string
				Step int
			}
			Expect(events.Decode(&event)).To(Succeed())
			if event.What == "stored" {
				acknowledged = event.Step
			}
			if event.What == "begun" && event.Step == 4 {
				break
			}
		}
		Expect(worker.Process.Signal(syscall.SIGKILL)).To(Succeed())
		Expect(worker.Wait()).To(MatchError(ContainSubstring("killed")))

		var written, expiry, acquired time.Time
		row := `SELECT updated_at, expires_at, acquired_at FROM worklease_leases WHERE work_id = $1`
		Expect(db.QueryRowContext(ctx, row, workID).Scan(&written, &expiry, &acquired)).To(Succeed())
		Expect(expiry).To(BeTemporally("==", written.Add(ttl)))

		token, err := lease.Acquire(ctx, workID, worklease.WithWaitForLease(), worklease.WithPollInterval(poll))
		Expect(err).NotTo(HaveOccurred())
		prior, err := lease.ReadCheckpoint(ctx, token)
		Expect(err).NotTo(HaveOccurred())
		Expect(prior).To(Equal(worklease.Checkpoint{
			State: []byte(`{"done":3}`), PrevExit: worklease.ExitExpired, PrevHolderID: "worker-a",
		}))
		Expect(acknowledged).To(Equal(3))

		var later time.Time
		Expect(db.QueryRowContext(ctx, row, workID).Scan(&written, &later, &acquired)).To(Succeed())
		Expect(acquired).To(BeTemporally(">=", expiry))
		Expect(acquired).To(BeTemporally("<=", expiry.Add(poll+time.Second))) // a second for a real server
	}, SpecTimeout(time.Minute))
})
