package conformance

import (
	"context"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

// The verdicts, short enough for the columns of a table.
var (
	fenced  = backend.ErrFenced
	expired = backend.ErrLeaseExpired
)

// verdicts say what each call returns in each situation, nil where it succeeds.
var verdicts = []struct {
	name    string
	arrange func(ctx context.Context, s *subject) situation
	want    [8]error // Checkpoint, Renew, RenewBatch, Release, ReadCheckpoint, Forget, Restore, ForceRelease
}{
	{"with a stale token of a live lease", takenOver(stay), [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with a stale token of a lapsed lease", takenOver(lapse), [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with a stale token of a released lease", takenOver(leave), [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with the token of the holder's own earlier lease", takenAgain, [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with the zero token", retoken(func(uint64) uint64 { return 0 }), [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with a token that was not issued yet", retoken(func(t uint64) uint64 { return t + 1 }), [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with a token above int64", retoken(func(t uint64) uint64 { return 1<<63 | t }), [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with the greatest token", retoken(func(uint64) uint64 { return math.MaxUint64 }), [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"with the token of other work", misplaced, [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"on a row that never was", missing, [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"on a row that was forgotten", forgotten, [8]error{fenced, fenced, fenced, fenced, fenced, fenced, fenced, fenced}},
	{"of another holder on a live lease", renamed(stay), [8]error{fenced, fenced, fenced, fenced, nil, fenced, nil, nil}},
	{"of another holder on a lapsed lease", renamed(lapse), [8]error{fenced, fenced, fenced, fenced, nil, fenced, nil, nil}},
	{"of another holder on a released lease", renamed(leave), [8]error{fenced, fenced, fenced, fenced, nil, fenced, nil, expired}},
	{"on a live lease", own(stay), [8]error{nil, nil, nil, nil, nil, nil, nil, nil}},
	{"on a lapsed lease", own(lapse), [8]error{nil, expired, expired, expired, nil, nil, nil, nil}},
	{"on a released lease", own(leave), [8]error{expired, expired, expired, expired, nil, nil, nil, expired}},
}

func verdictSpecs(s *subject) {
	for _, v := range verdicts {
		for i, c := range calls {
			want := v.want[i]
			switch want {
			case nil:
				It(c.name+" succeeds "+v.name, limit, func(ctx SpecContext) {
					if s.offered(c) {
						Expect(c.do(ctx, s.Backend, v.arrange(ctx, s).used)).To(Succeed())
					}
				})
			default:
				It(c.name+" is refused and changes nothing "+v.name, limit, func(ctx SpecContext) {
					if s.offered(c) {
						at := v.arrange(ctx, s)
						Expect(c.do(ctx, s.Backend, at.used)).To(MatchError(want))
						Expect(s.standing(ctx, at.owner)).To(Equal(at.standing))
					}
				})
			}
		}
	}
}

// situation is a lease as a call finds it.
type situation struct {
	used     backend.LeaseRecord // what the call is given
	owner    backend.LeaseRecord // whose lease it is
	standing standing            // what stays of it
}

// end is what became of an owner's lease.
type end func(ctx context.Context, s *subject, owner backend.LeaseRecord) standing

func stay(_ context.Context, _ *subject, owner backend.LeaseRecord) standing {
	return standing{Held: true, Exit: backend.ExitExpired, Holder: owner.HolderID, State: "owner's"}
}

func lapse(ctx context.Context, s *subject, owner backend.LeaseRecord) standing {
	s.lapse(ctx, owner)
	return standing{Exit: backend.ExitExpired, Holder: owner.HolderID, State: "owner's"}
}

func leave(ctx context.Context, s *subject, owner backend.LeaseRecord) standing {
	s.leave(ctx, owner, backend.ExitFinished)
	return standing{Exit: backend.ExitFinished, Holder: owner.HolderID, State: "owner's"}
}

// owned takes workID for holderID, stores a state and lets e happen.
func owned(ctx context.Context, s *subject, workID, holderID string, e end) situation {
	owner := s.take(ctx, workID, holderID, live)
	s.store(ctx, owner, "owner's")
	return situation{used: owner, owner: owner, standing: e(ctx, s, owner)}
}

func own(e end) func(context.Context, *subject) situation {
	return func(ctx context.Context, s *subject) situation { return owned(ctx, s, newWorkID(), "a", e) }
}

func takenOver(e end) func(context.Context, *subject) situation {
	return func(ctx context.Context, s *subject) situation {
		stale := s.take(ctx, newWorkID(), "a", lapsed)
		at := owned(ctx, s, stale.WorkID, "b", e)
		at.used = stale
		return at
	}
}

func takenAgain(ctx context.Context, s *subject) situation {
	stale := s.take(ctx, newWorkID(), "a", lapsed)
	at := owned(ctx, s, stale.WorkID, "a", stay)
	at.used = stale
	return at
}

func renamed(e end) func(context.Context, *subject) situation {
	return func(ctx context.Context, s *subject) situation {
		at := own(e)(ctx, s)
		at.used.HolderID = "b"
		return at
	}
}

func retoken(change func(uint64) uint64) func(context.Context, *subject) situation {
	return func(ctx context.Context, s *subject) situation {
		at := own(stay)(ctx, s)
		at.used.FencingToken = change(at.used.FencingToken)
		return at
	}
}

func misplaced(ctx context.Context, s *subject) situation {
	at := own(stay)(ctx, s)
	at.used.FencingToken = s.take(ctx, newWorkID(), at.used.HolderID, live).FencingToken
	return at
}

func missing(context.Context, *subject) situation {
	rec := backend.LeaseRecord{WorkID: newWorkID(), HolderID: "a", FencingToken: 1}
	return situation{used: rec, owner: rec}
}

func forgotten(ctx context.Context, s *subject) situation {
	rec := s.take(ctx, newWorkID(), "a", live)
	s.store(ctx, rec, "a's")
	Expect(s.Forget(ctx, rec)).To(Succeed())
	return situation{used: rec, owner: rec}
}
