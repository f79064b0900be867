package conformance

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func contextSpecs(s *subject) {
	Context("that was cancelled", func() {
		doneSpecs(s, context.Canceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
			done, cancel := context.WithCancel(ctx)
			cancel()
			return done, cancel
		})
	})
	Context("whose deadline has passed", func() {
		doneSpecs(s, context.DeadlineExceeded, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadline(ctx, time.Unix(0, 0))
		})
	})
}

// doneSpecs hold for a context that end has ended with want.
func doneSpecs(s *subject, want error, end func(context.Context) (context.Context, context.CancelFunc)) {
	DescribeTable("gives its error and changes nothing",
		func(ctx SpecContext, name string) {
			done, cancel := end(ctx)
			defer cancel()
			for _, c := range calls {
				if c.name == name && s.offered(c) {
					at := own(stay)(ctx, s)
					Expect(c.do(done, s.Backend, at.used)).To(MatchError(want))
					Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
				}
			}
		},
		Entry("7a: Checkpoint", limit, "Checkpoint"),
		Entry("7a: Renew", limit, "Renew"),
		Entry("7a: Release", limit, "Release"),
		Entry("7a: ReadCheckpoint", limit, "ReadCheckpoint"),
		Entry("7a: Forget", limit, "Forget"),
		Entry("7a: Restore", limit, "Restore"),
		Entry("7a: ForceRelease", limit, "ForceRelease"),
	)

	It("7a: Acquire gives its error and makes no row", limit, func(ctx SpecContext) {
		done, cancel := end(ctx)
		defer cancel()
		work := newWorkID()
		_, err := s.Acquire(done, work, "a", live)
		Expect(err).To(MatchError(want))
		Expect(s.succeed(ctx, work)).To(Equal(backend.Checkpoint{PrevExit: backend.ExitNone}))
	})

	It("7a: Acquire gives its error and takes over nothing", limit, func(ctx SpecContext) {
		done, cancel := end(ctx)
		defer cancel()
		at := own(leave)(ctx, s)
		_, err := s.Acquire(done, at.owner.WorkID, "b", live)
		Expect(err).To(MatchError(want))
		Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
	})

	It("7a: Sweep gives its error and deletes nothing", Serial, limit, func(ctx SpecContext) {
		done, cancel := end(ctx)
		defer cancel()
		at := own(lapse)(ctx, s)
		n, err := s.Sweep(done, backend.SweepOptions{Retention: -live, IncludeExpired: true})
		Expect(err).To(MatchError(want))
		Expect(n).To(BeZero())
		Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
	})
}
