package serverfaults

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/proxy"
	"github.com/aetomala/worklease/worker"
)

// A reply that is lost after the server has executed. The connection ends with
// it, so the driver or database/sql may send again.
func (s *subject) replySpecs() {
	var (
		p *proxy.Proxy
		l worklease.Lease
	)
	BeforeEach(func(ctx SpecContext) {
		s.database()
		p = proxy.Start(address(s.dsn))
		db := s.open(through(s.dsn, p.Addr()))
		db.SetMaxOpenConns(1) // so that its statements are prepared on it
		l = holder(on(db), "a", ttl)
		token := acquire(ctx, l, "before")
		Expect(l.Renew(ctx, token)).To(Succeed())
		Expect(l.Checkpoint(ctx, token, nil)).To(Succeed())
		Expect(l.Release(ctx, token, worklease.ExitFinished)).To(Succeed())
		acquire(ctx, l, "before")
	})

	// lose makes a call of which no reply arrives, not even a second one.
	lose := func(call func() error) error {
		GinkgoHelper()
		before := p.Lost()
		p.LoseReplies()
		err := call()
		p.Pass()
		Expect(p.Lost()).To(BeNumerically(">", before))
		AddReportEntry("the driver said", fmt.Sprintf("%v (%d replies lost)", err, p.Lost()-before))
		return err
	}

	// loseFirst makes a call of which only the first reply is lost.
	loseFirst := func(call func()) {
		GinkgoHelper()
		before := p.Lost()
		p.LoseReplies()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer GinkgoRecover()
			call()
		}()
		Eventually(p.Lost).WithPolling(time.Millisecond).Should(BeNumerically(">", before))
		p.Pass()
		<-done
	}

	It("6a: that was to a Renew or a Checkpoint is no verdict, and the next try succeeds", limit, func(ctx SpecContext) {
		token := acquire(ctx, l, work)
		expectNoVerdict(lose(func() error { return l.Renew(ctx, token) }))
		Expect(l.Renew(ctx, token)).To(Succeed())
		Expect(l.Checkpoint(ctx, token, nil)).To(Succeed()) // prepares it on the new connection
		expectNoVerdict(lose(func() error { return l.Checkpoint(ctx, token, []byte("new")) }))
		Expect(read(ctx, l, token).State).To(Equal([]byte("new")))
		Expect(l.Checkpoint(ctx, token, []byte("newer"))).To(Succeed())
		Expect(read(ctx, l, token).State).To(Equal([]byte("newer")))
	})

	It("6b: that was to a Runner's Release leaves the exit recorded, and Run succeeds", limit, func(ctx SpecContext) {
		working, leave := make(chan struct{}), make(chan struct{})
		r, err := worker.NewRunner(worker.RunnerConfig{
			Lease: l,
			WorkFn: func(context.Context, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				close(working)
				<-leave
				return nil, nil
			},
			RenewalOptions: []worklease.RenewalOption{worklease.WithRenewalInterval(time.Hour)},
		})
		Expect(err).NotTo(HaveOccurred())
		result := make(chan error, 1)
		go func() { result <- r.Run(ctx, work) }()
		Eventually(working).Should(BeClosed())
		loseFirst(func() {
			close(leave)
			Expect(<-result).To(Succeed())
		})
		Expect(read(ctx, l, acquire(ctx, l, work)).PrevExit).To(Equal(worklease.ExitFinished))
	})

	It("6c: that was to an Acquire is no verdict, and its lease lapses", limit, func(ctx SpecContext) {
		expectNoVerdict(lose(func() error { _, err := l.Acquire(ctx, work); return err }))
		Expect(waitFor(ctx, l, work).PrevExit).To(Equal(worklease.ExitExpired))
	})

	It("6c: that was to an Acquire's first send gives a token that works or no verdict", limit, func(ctx SpecContext) {
		for n := range 10 {
			loseFirst(func() {
				token, err := l.Acquire(ctx, fmt.Sprintf("work-%d", n))
				if err == nil {
					Expect(l.Renew(ctx, token)).To(Succeed())
				} else {
					expectNoVerdict(err)
				}
			})
		}
	})
}
