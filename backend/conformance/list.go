package conformance

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

// all collects what l lists.
func all(ctx context.Context, l backend.Lister, opts backend.ListOptions) []backend.LeaseInfo {
	GinkgoHelper()
	var infos []backend.LeaseInfo
	for info, err := range l.List(ctx, opts) {
		Expect(err).NotTo(HaveOccurred())
		infos = append(infos, info)
	}
	return infos
}

// only returns what l lists of workID.
func only(ctx context.Context, l backend.Lister, workID string) backend.LeaseInfo {
	GinkgoHelper()
	infos := all(ctx, l, backend.ListOptions{WorkIDPrefix: workID})
	Expect(infos).To(HaveLen(1))
	return infos[0]
}

func workIDs(infos []backend.LeaseInfo) []string {
	ids := make([]string, len(infos))
	for i, info := range infos {
		ids[i] = info.WorkID
	}
	return ids
}

// timeless is info without its times, which the suite cannot know.
func timeless(info backend.LeaseInfo) backend.LeaseInfo {
	info.ExpiresAt, info.AcquiredAt, info.UpdatedAt = time.Time{}, time.Time{}, time.Time{}
	return info
}

func listSpecs(s *subject) {
	var prefix string // of the work IDs of one spec
	BeforeEach(func() { prefix = newWorkID() + "/" })

	// furnish makes a lease of every kind, whose work IDs say which.
	furnish := func(ctx context.Context) {
		GinkgoHelper()
		s.take(ctx, prefix+"live", "a", live)
		s.take(ctx, prefix+"expired", "a", lapsed)
		for _, mode := range []backend.ExitMode{backend.ExitFinished, backend.ExitAbandoned, backend.ExitRetired} {
			s.leave(ctx, s.take(ctx, prefix+mode.String(), "b", live), mode)
		}
		s.take(ctx, prefix+"taken-over", "a", lapsed)
		s.take(ctx, prefix+"taken-over", "b", live)
	}

	DescribeTable("lists what is selected, once each, in the same order again",
		func(ctx SpecContext, opts backend.ListOptions, want ...string) {
			if l, ok := s.lister(); ok {
				furnish(ctx)
				opts.WorkIDPrefix = prefix
				for i := range want {
					want[i] = prefix + want[i]
				}
				list := l.List(ctx, opts)
				var first, second []string
				for info, err := range list {
					Expect(err).NotTo(HaveOccurred())
					first = append(first, info.WorkID)
				}
				for info, err := range list {
					Expect(err).NotTo(HaveOccurred())
					second = append(second, info.WorkID)
				}
				Expect(first).To(ConsistOf(want))
				Expect(second).To(Equal(first))
			}
		},
		Entry("everything", limit, backend.ListOptions{},
			"live", "expired", "finished", "abandoned", "retired", "taken-over"),
		Entry("everything, both live and lapsed", limit, backend.ListOptions{Live: true, Lapsed: true},
			"live", "expired", "finished", "abandoned", "retired", "taken-over"),
		Entry("live ones", limit, backend.ListOptions{Live: true}, "live", "taken-over"),
		Entry("lapsed ones", limit, backend.ListOptions{Lapsed: true}, "expired", "finished", "abandoned", "retired"),
		Entry("a holder's", limit, backend.ListOptions{HolderID: "a"}, "live", "expired"),
		Entry("a holder's live ones", limit, backend.ListOptions{HolderID: "b", Live: true}, "taken-over"),
		Entry("finished ones", limit, backend.ListOptions{Exit: backend.ExitFinished}, "finished"),
		Entry("abandoned ones", limit, backend.ListOptions{Exit: backend.ExitAbandoned}, "abandoned"),
		Entry("retired ones", limit, backend.ListOptions{Exit: backend.ExitRetired}, "retired"),
		Entry("expired ones", limit, backend.ListOptions{Exit: backend.ExitExpired}, "expired"),
		Entry("finished ones that are live", limit, backend.ListOptions{Exit: backend.ExitFinished, Live: true}),
		Entry("nobody's", limit, backend.ListOptions{HolderID: "nobody"}),
	)

	It("tells all of a live lease that took over", limit, func(ctx SpecContext) {
		if l, ok := s.lister(); ok {
			first := s.take(ctx, prefix, "a", live)
			s.store(ctx, first, "a's")
			s.leave(ctx, first, backend.ExitAbandoned)
			rec := s.take(ctx, prefix, "b", live)
			s.store(ctx, rec, "state")
			info := only(ctx, l, prefix)
			Expect(timeless(info)).To(Equal(backend.LeaseInfo{
				WorkID: prefix, HolderID: "b", FencingToken: rec.FencingToken, Live: true,
				PrevExit: backend.ExitAbandoned, PrevHolderID: "a", StateSize: len("state"),
			}))
			Expect(info.ExpiresAt).To(BeTemporally(">=", rec.ExpiresAt))
			Expect(info.AcquiredAt.Add(live)).To(BeTemporally("~", rec.ExpiresAt, 10*time.Millisecond))
			Expect(info.UpdatedAt).To(BeTemporally(">=", info.AcquiredAt))
		}
	})

	DescribeTable("tells how a lease was left",
		func(ctx SpecContext, e end, want backend.ExitMode) {
			if l, ok := s.lister(); ok {
				at := own(e)(ctx, s)
				info := only(ctx, l, at.owner.WorkID)
				Expect(timeless(info)).To(Equal(backend.LeaseInfo{
					WorkID: at.owner.WorkID, HolderID: "a", FencingToken: at.owner.FencingToken, Live: want == backend.ExitNone,
					Exit: want, StateSize: len("owner's"),
				}))
				if want != backend.ExitNone {
					Expect(info.ExpiresAt).To(BeTemporally("<=", info.UpdatedAt))
				}
			}
		},
		Entry("not yet", limit, end(stay), backend.ExitNone),
		Entry("without a word", limit, end(lapse), backend.ExitExpired),
		Entry("as finished", limit, end(leave), backend.ExitFinished),
	)

	It("gives the state only when it is asked for, in slices of the caller's own", limit, func(ctx SpecContext) {
		if l, ok := s.lister(); ok {
			s.store(ctx, s.take(ctx, prefix+"some", "a", live), "state")
			s.store(ctx, s.take(ctx, prefix+"none", "a", live), "")
			for _, info := range all(ctx, l, backend.ListOptions{WorkIDPrefix: prefix}) {
				Expect(info.State).To(BeNil())
			}
			for range 2 {
				states := map[string][]byte{}
				for _, info := range all(ctx, l, backend.ListOptions{WorkIDPrefix: prefix, State: true}) {
					states[info.WorkID] = info.State
					Expect(info.StateSize).To(Equal(len(info.State)))
				}
				Expect(states).To(Equal(map[string][]byte{prefix + "some": []byte("state"), prefix + "none": nil}))
				copy(states[prefix+"some"], "XXXXX")
			}
		}
	})

	It("takes a prefix and a holder for the bytes that they are, whatever they look like", limit, func(ctx SpecContext) {
		if l, ok := s.lister(); ok {
			short := slices.DeleteFunc(slices.Clone(lookalikes), func(name string) bool { return len(name) > 100 })
			for _, name := range short {
				s.take(ctx, prefix+name, name, live)
			}
			for _, name := range short {
				var want []string
				for _, other := range short {
					if strings.HasPrefix(other, name) {
						want = append(want, prefix+other)
					}
				}
				Expect(workIDs(all(ctx, l, backend.ListOptions{WorkIDPrefix: prefix + name}))).To(ConsistOf(want), "%q", name)
				Expect(workIDs(all(ctx, l, backend.ListOptions{WorkIDPrefix: prefix, HolderID: name}))).To(Equal([]string{prefix + name}), "%q", name)
			}
		}
	})

	It("lists names of 1,024 bytes", limit, func(ctx SpecContext) {
		if l, ok := s.lister(); ok {
			work, holder := prefix+strings.Repeat("\u00e9", (1024-len(prefix))/2), strings.Repeat("x", 1024)
			s.take(ctx, work, holder, live)
			for _, opts := range []backend.ListOptions{{WorkIDPrefix: work}, {WorkIDPrefix: prefix, HolderID: holder}} {
				Expect(workIDs(all(ctx, l, opts))).To(Equal([]string{work}))
			}
			Expect(all(ctx, l, backend.ListOptions{WorkIDPrefix: work + "x"})).To(BeEmpty())
		}
	})

	It("may be broken off, and its body may use the backend and what it lists", limit, func(ctx SpecContext) {
		if l, ok := s.lister(); ok {
			furnish(ctx)
			for range 100 { // a call left open each time would soon be one too many
				for _, err := range l.List(ctx, backend.ListOptions{WorkIDPrefix: prefix}) {
					Expect(err).NotTo(HaveOccurred())
					break
				}
			}
			for info, err := range l.List(ctx, backend.ListOptions{WorkIDPrefix: prefix}) {
				Expect(err).NotTo(HaveOccurred())
				Expect(s.Forget(ctx, backend.LeaseRecord{
					WorkID: info.WorkID, HolderID: info.HolderID, FencingToken: info.FencingToken,
				})).To(Succeed())
			}
			Expect(all(ctx, l, backend.ListOptions{WorkIDPrefix: prefix})).To(BeEmpty())
		}
	})

	It("7a: ends with its context, between two leases too", limit, func(ctx SpecContext) {
		if l, ok := s.lister(); ok {
			furnish(ctx)
			listing, cancel := context.WithCancel(ctx)
			defer cancel()
			var leases int
			var last error
			for info, err := range l.List(listing, backend.ListOptions{WorkIDPrefix: prefix}) {
				Expect(last).NotTo(HaveOccurred(), "an error is the last there is")
				if last = err; err == nil {
					leases++
				} else {
					Expect(info).To(Equal(backend.LeaseInfo{}))
				}
				cancel()
			}
			Expect(leases).To(Equal(1))
			Expect(last).To(MatchError(context.Canceled))
		}
	})

	It("7a: gives the error of a context that is done and nothing else", limit, func(ctx SpecContext) {
		if l, ok := s.lister(); ok {
			s.take(ctx, prefix, "a", live)
			done, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
			defer cancel()
			Expect(listed(l.List(done, backend.ListOptions{WorkIDPrefix: prefix}))).To(HaveExactElements(MatchError(context.DeadlineExceeded)))
		}
	})

	DescribeTable("refuses what no lease can have, naming field and value, and lists nothing",
		func(ctx SpecContext, opts backend.ListOptions, want string) {
			if l, ok := s.lister(); ok {
				s.take(ctx, prefix, "a", live)
				Expect(listed(l.List(ctx, opts))).To(HaveExactElements(MatchError(ContainSubstring(want))))
			}
		},
		Entry("a prefix that is no UTF-8", limit, backend.ListOptions{WorkIDPrefix: "a\xff"}, `WorkIDPrefix "a\xff"`),
		Entry("a prefix with a NUL", limit, backend.ListOptions{WorkIDPrefix: "a\x00"}, `WorkIDPrefix "a\x00"`),
		Entry("a holder that is no UTF-8", limit, backend.ListOptions{HolderID: "\xe2\x28\xa1"}, `HolderID "\xe2(\xa1"`),
		Entry("a holder with a NUL", limit, backend.ListOptions{HolderID: "\x00"}, `HolderID "\x00"`),
		Entry("an exit that there is not", limit, backend.ListOptions{Exit: 7}, "Exit ExitMode(7)"),
	)
}

// listed collects the errors of a list, nil for each lease.
func listed(list func(func(backend.LeaseInfo, error) bool)) (errs []error) {
	for _, err := range list {
		errs = append(errs, err)
	}
	return errs
}
