package pool_test

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/pool"
)

func nothing(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
	return nil, nil
}

var _ = Describe("New", func() {
	DescribeTable("refuses", func(cfg pool.Config, sentinel error) {
		p, err := pool.New(newSite().holder("us"), cfg, nothing)
		Expect(p).To(BeNil())
		Expect(err).To(And(
			MatchError(sentinel), MatchError(pool.ErrConfigInvalid), MatchError(worklease.ErrConfigInvalid)))
	},
		Entry("no ids", pool.Config{}, pool.ErrEmptyWorkIDs),
		Entry("14b: an empty id", pool.Config{WorkIDs: []string{"a", ""}}, pool.ErrEmptyWorkID),
		Entry("14b: an id that stands twice", pool.Config{WorkIDs: []string{"a", "b", "a"}}, pool.ErrDuplicateWorkID),
		Entry("an id with a NUL", pool.Config{WorkIDs: []string{"a\x00"}}, pool.ErrConfigInvalid),
		Entry("an id that is not UTF-8", pool.Config{WorkIDs: []string{"\xff"}}, pool.ErrConfigInvalid),
		Entry("an id that is too long", pool.Config{WorkIDs: []string{strings.Repeat("a", 1025)}}, pool.ErrConfigInvalid),
		Entry("slots that wait inside Acquire", pool.Config{
			WorkIDs:        []string{"a"},
			AcquireOptions: []worklease.AcquireOption{worklease.WithWaitForLease()},
		}, pool.ErrWithWaitForLeaseProhibited),
	)

	It("14b: refuses a nil lease and a nil function", func() {
		cfg := pool.Config{WorkIDs: []string{"a"}}
		Expect(pool.New(nil, cfg, nothing)).Error().To(And(
			MatchError(pool.ErrLeaseRequired), MatchError(pool.ErrConfigInvalid), MatchError(worklease.ErrConfigInvalid)))
		Expect(pool.New(newSite().holder("us"), cfg, nil)).Error().To(And(
			MatchError(pool.ErrWorkFnRequired), MatchError(pool.ErrConfigInvalid), MatchError(worklease.ErrConfigInvalid)))
	})

	It("names everything that is wrong at once", func() {
		_, err := pool.New(nil, pool.Config{
			WorkIDs:        []string{"", "a", "a"},
			AcquireOptions: []worklease.AcquireOption{worklease.WithWaitForLease()},
		}, nil)
		for _, sentinel := range []error{
			pool.ErrLeaseRequired, pool.ErrWorkFnRequired, pool.ErrEmptyWorkID,
			pool.ErrDuplicateWorkID, pool.ErrWithWaitForLeaseProhibited,
		} {
			Expect(err).To(MatchError(sentinel))
		}
		Expect(err).NotTo(MatchError(pool.ErrEmptyWorkIDs))
	})

	It("14b: copies the ids, so that the caller may edit its slice", func() {
		bubble.Run(func() {
			ids := []string{"a", "b"}
			s := newSite(ids...)
			p := s.pool(func(context.Context, string, worklease.Token, worklease.Checkpoint) ([]byte, error) {
				return nil, worklease.ErrRetire
			})
			ids[0], ids[1] = "edited", "edited"
			Expect(p.Run(bg)).To(Succeed())
			Expect(s.told.of("Retired")).To(ConsistOf(HaveField("ID", "a"), HaveField("ID", "b")))
		})
	})
})

var _ = Describe("Permanent", func() {
	It("marks an error and keeps it reachable", func() {
		err := pool.Permanent(errWork)
		var permanent pool.PermanentError
		Expect(errors.As(err, &permanent) && permanent.Permanent()).To(BeTrue())
		Expect(err).To(MatchError(errWork))
		Expect(err.Error()).To(Equal(errWork.Error()))
	})

	It("of nil is nil", func() {
		Expect(pool.Permanent(nil)).To(BeNil())
	})
})
