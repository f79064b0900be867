package conformance

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

const (
	// hints is how many times in a row what a Notifier tells may be lost.
	hints = 10

	// soon is how long a hint may take.
	soon = 3 * time.Second
)

func notifySpecs(s *subject) {
	DescribeTable("tells one who waits that the lease may be free",
		func(ctx SpecContext, end func(context.Context, backend.LeaseRecord)) {
			n, ok := s.notifier()
			if !ok {
				return
			}
			told := func() bool {
				rec := s.take(ctx, newWorkID(), "a", live)
				free, stop := n.Subscribe(rec.WorkID)
				defer stop()
				_, err := s.Acquire(ctx, rec.WorkID, "b", live)
				Expect(err).To(MatchError(backend.ErrLeaseHeld))
				end(ctx, rec)
				select {
				case <-free:
					return true
				case <-time.After(soon):
					return false
				}
			}
			for range hints {
				if told() {
					return
				}
			}
			Fail("nothing was told")
		},
		Entry("by Release", limit, func(ctx context.Context, rec backend.LeaseRecord) {
			s.leave(ctx, rec, backend.ExitAbandoned)
		}),
		Entry("by Forget", limit, func(ctx context.Context, rec backend.LeaseRecord) {
			Expect(s.Forget(ctx, rec)).To(Succeed())
		}),
		Entry("by ForceRelease", limit, func(ctx context.Context, rec backend.LeaseRecord) {
			f, ok := s.forceReleaser()
			if !ok {
				s.leave(ctx, rec, backend.ExitAbandoned)
				return
			}
			Expect(f.ForceRelease(ctx, rec.WorkID, rec.FencingToken)).To(Succeed())
		}),
		Entry("by ForceRelease", limit, func(ctx context.Context, rec backend.LeaseRecord) {
			f, ok := offered[backend.ForceReleaser](s, "ForceReleaser")
			if !ok {
				s.leave(ctx, rec, backend.ExitAbandoned)
				return
			}
			Expect(f.ForceRelease(ctx, rec.WorkID, rec.FencingToken)).To(Succeed())
		}),
		Entry("because it was put back", limit, func(ctx context.Context, rec backend.LeaseRecord) {
			r, ok := s.restorer()
			if !ok {
				s.leave(ctx, rec, backend.ExitAbandoned)
				return
			}
			Expect(r.Restore(ctx, rec)).To(Succeed())
		}),
		Entry("because it was put back to a holder before", limit, func(ctx context.Context, rec backend.LeaseRecord) {
			s.leave(ctx, rec, backend.ExitAbandoned)
			rec = s.take(ctx, rec.WorkID, "c", live)
			r, ok := s.restorer()
			if !ok {
				s.leave(ctx, rec, backend.ExitAbandoned)
				return
			}
			Expect(r.Restore(ctx, rec)).To(Succeed())
		}),
	)

	It("lets a subscription end more than once", limit, func(SpecContext) {
		if n, ok := s.notifier(); ok {
			_, stop := n.Subscribe(newWorkID())
			stop()
			stop()
		}
	})
}

// notifier returns the backend as a [backend.Notifier] where it is one that tells
// anything.
func (s *subject) notifier() (backend.Notifier, bool) {
	n, ok := offered[backend.Notifier](s, "Notifier")
	if !ok {
		return nil, false
	}
	free, stop := n.Subscribe(newWorkID())
	stop()
	return n, free != nil
}
