package postgres_test

import (
	"context"
	"database/sql/driver"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
)

// hanging is a driver that does not come back from a statement, whatever becomes of
// the context, until the spec is over.
type hanging struct {
	refusing
	entered chan struct{}
	over    chan struct{}
}

func (h hanging) Connect(context.Context) (driver.Conn, error) { return h, nil }

func (h hanging) Prepare(string) (driver.Stmt, error) {
	h.entered <- struct{}{}
	<-h.over
	return nil, driver.ErrBadConn
}

var _ = Describe("A driver that does not come back", func() {
	DescribeTable("is not waited for beyond the context by what an operator calls",
		func(ctx SpecContext, call func(context.Context, *postgres.Backend) error) {
			noLeaks()
			h := hanging{entered: make(chan struct{}, 1), over: make(chan struct{})}
			b := on(openStub(h))
			DeferCleanup(func() { close(h.over) })
			calling, cancel := context.WithCancel(ctx)
			answer := make(chan error, 1)
			go func() { answer <- call(calling, b) }()
			<-h.entered
			Consistently(answer, "50ms").ShouldNot(Receive())
			cancel()
			Eventually(answer).Should(Receive(MatchError(context.Canceled)))
		},
		Entry("List", SpecTimeout(bound), func(ctx context.Context, b *postgres.Backend) error {
			for _, err := range b.List(ctx, backend.ListOptions{}) {
				return err
			}
			return nil
		}),
		Entry("ForceRelease", SpecTimeout(bound), func(ctx context.Context, b *postgres.Backend) error {
			return b.ForceRelease(ctx, work, 1)
		}),
		Entry("Check", SpecTimeout(bound), func(ctx context.Context, b *postgres.Backend) error { return b.Check(ctx) }),
	)
})
