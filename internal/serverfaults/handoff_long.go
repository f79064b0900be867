//go:build long

package serverfaults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/aetomala/worklease"
)

// handoffLongSpecs take long. Those with the label timed hold to times that only a
// machine of their own keeps, without the race detector.
func (s *subject) handoffLongSpecs() {
	It("33a: five hundred take a few milliseconds each", long, Label("long", "timed"), func(ctx SpecContext) {
		took := s.handoffs(ctx, 500, 10*time.Second, func() {})
		Expect(took[len(took)/2]).To(BeNumerically("<", 5*time.Millisecond))
		Expect(took[len(took)*99/100]).To(BeNumerically("<", 50*time.Millisecond))
	})

	It("33b: with the listening connections ended every 200 ms none takes longer than a poll", long, Label("long"), func(ctx SpecContext) {
		const poll = 2 * time.Second
		admin := s.open(s.dsn)
		storm, calm := context.WithCancel(ctx)
		ended := make(chan int)
		go func() {
			defer GinkgoRecover()
			defer close(ended)
			n := 0
			for storm.Err() == nil {
				var now int
				Expect(admin.QueryRowContext(ctx, `
					SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
						SELECT DISTINCT pid FROM pg_locks
						WHERE locktype = 'advisory' AND mode = 'ShareLock' AND classid IN (2003792491, 2003792492)
					) AS listening`).Scan(&now)).To(Succeed())
				n += now
				pause(200 * time.Millisecond)
			}
			ended <- n
		}()
		took := s.handoffs(ctx, 100, poll, func() { pause(rand.N(200 * time.Millisecond)) })
		calm()
		n := <-ended
		AddReportEntry("connections ended", fmt.Sprint(n))
		Expect(n).To(BeNumerically(">=", 20))
		Expect(took[len(took)-1]).To(BeNumerically("<=", poll+margin/2))
	})

	It("33c: after kill -9 a waiter has the lease within 0.2 s of its lapse, fifty times, though its poll is 5 s", long, Label("long", "timed"), func(ctx SpecContext) {
		const (
			kills = 50
			ttl   = 2 * time.Second
		)
		db := s.database()
		b := holder(on(s.open(s.dsn)), "b", ttl)
		var took []time.Duration
		for n := range kills {
			id := fmt.Sprint(work, n)
			text, err := json.Marshal(task{Driver: s.driver, DSN: s.dsn, Hold: id, TTL: ttl})
			Expect(err).NotTo(HaveOccurred())
			victim := exec.CommandContext(ctx, os.Args[0])
			victim.Env = append(os.Environ(), envTask+"="+string(text))
			says := gbytes.NewBuffer()
			victim.Stdout, victim.Stderr = says, says
			Expect(victim.Start()).To(Succeed())
			Eventually(says).WithTimeout(10 * time.Second).Should(gbytes.Say("holds"))

			taken := make(chan time.Time, 1)
			go func() {
				defer GinkgoRecover()
				token, err := b.Acquire(ctx, id, worklease.WithWaitForLease(), worklease.WithPollInterval(5*time.Second))
				taken <- time.Now()
				Expect(err).NotTo(HaveOccurred())
				Expect(read(ctx, b, token).PrevExit).To(Equal(worklease.ExitExpired))
			}()
			pause(rand.N(2 * ttl))
			Expect(victim.Process.Kill()).To(Succeed())
			_ = victim.Wait() // it was killed
			// Of the last renewal, which may have arrived after the kill.
			var lapse int64
			Expect(db.QueryRowContext(ctx, `
				SELECT (extract(epoch FROM expires_at) * 1000000)::bigint FROM worklease_leases
				WHERE work_id = $1 AND holder_id = 'victim'`, id).Scan(&lapse)).To(Succeed())
			var at time.Time
			Eventually(taken).WithTimeout(ttl + 10*time.Second).Should(Receive(&at))
			took = append(took, at.Sub(time.UnixMicro(lapse)))
		}
		slices.Sort(took)
		AddReportEntry("after the lapse", fmt.Sprintf("median %v, longest %v", took[kills/2], took[kills-1]))
		Expect(took[0]).To(BeNumerically(">=", 0))
		Expect(took[kills-1]).To(BeNumerically("<=", 200*time.Millisecond))
	})
}
