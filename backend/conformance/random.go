package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func randomSpecs(s *subject) {
	It("agree with the model in 200 sequences of 50", limit, func(ctx SpecContext) {
		for n := 0; n < 200; n += 8 {
			s.sweep(ctx, true) // so that later sweeps count this group's rows alone
			group := make([]*walk, 8)
			for i := range group {
				group[i] = newWalk(s, n+i)
			}
			for range 5 {
				s.walk(ctx, group, 10)
			}
		}
	})
}

// walk takes each walk of the group a few steps on, all at once since they have
// no work ID in common, and then sweeps away what may go of any of them.
func (s *subject) walk(ctx context.Context, group []*walk, steps int) {
	GinkgoHelper()
	var walks sync.WaitGroup
	for _, w := range group {
		walks.Go(func() {
			defer GinkgoRecover()
			for range steps {
				w.step(ctx)
			}
		})
	}
	walks.Wait()

	includeExpired := group[0].rnd.IntN(2) == 0
	var want int64
	for _, w := range group {
		want += w.model.sweep(includeExpired)
		w.note("Sweep(IncludeExpired: %v)", includeExpired)
	}
	Expect(s.sweep(ctx, includeExpired)).To(Equal(want), group[0].explain)
}

// walk is one sequence of random operations on a backend and on the model. It
// depends on Ginkgo's seed and its number alone, but for the work IDs.
type walk struct {
	*subject
	rnd    *rand.Rand
	model  model
	number int

	workIDs []string
	records []backend.LeaseRecord
	log     []string
}

func newWalk(s *subject, number int) *walk {
	return &walk{
		subject: s,
		rnd:     rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(number))),
		model:   model{rows: map[string]*modelRow{}},
		number:  number,
		workIDs: []string{newWorkID(), newWorkID(), newWorkID()},
	}
}

// step does one operation on both sides and compares the answers.
func (w *walk) step(ctx context.Context) {
	GinkgoHelper()
	if len(w.records) == 0 {
		w.acquire(ctx)
		return
	}
	switch rec := w.record(); w.rnd.IntN(13) {
	case 0, 1, 2:
		w.acquire(ctx)
	case 3, 4:
		state, ttl := strings.Repeat("x", w.rnd.IntN(4)), w.ttl()
		w.compare(w.Checkpoint(ctx, rec, []byte(state), ttl), w.model.checkpoint(rec, state, ttl > 0),
			"Checkpoint(%v, %q, %v)", rec, state, ttl)
	case 5, 6:
		ttl := w.ttl()
		w.compare(w.Renew(ctx, rec, ttl), w.model.renew(rec, ttl > 0), "Renew(%v, %v)", rec, ttl)
	case 7, 8:
		mode := backend.ExitMode(w.rnd.IntN(6))
		w.compare(w.Release(ctx, rec, mode), w.model.release(rec, mode), "Release(%v, %v)", rec, mode)
	case 9:
		got, err := w.ReadCheckpoint(ctx, rec)
		want, wantErr := w.model.read(rec)
		w.compare(err, wantErr, "ReadCheckpoint(%v)", rec)
		Expect(got).To(Equal(want), w.explain)
	case 10:
		w.compare(w.Forget(ctx, rec), w.model.forget(rec), "Forget(%v)", rec)
	case 11:
		if r, ok := w.Backend.(backend.Restorer); ok {
			w.compare(r.Restore(ctx, rec), w.model.restore(rec), "Restore(%v)", rec)
		}
	case 12:
		if f, ok := w.Backend.(backend.ForceReleaser); ok {
			w.compare(f.ForceRelease(ctx, rec.WorkID, rec.FencingToken), w.model.forceRelease(rec), "ForceRelease(%v)", rec)
		}
	}
}

func (w *walk) acquire(ctx context.Context) {
	GinkgoHelper()
	workID, holderID, ttl := w.workIDs[w.rnd.IntN(3)], w.holderID(), w.ttl()
	rec, err := w.Acquire(ctx, workID, holderID, ttl)
	row, want := w.model.acquire(workID, holderID, ttl > 0)
	w.compare(err, want, "Acquire(%q, %q, %v): token %d", workID, holderID, ttl, rec.FencingToken)
	if err == nil {
		Expect(rec.FencingToken).To(BeNumerically(">", w.model.last), w.explain)
		w.model.last, row.token = rec.FencingToken, rec.FencingToken
		w.records = append(w.records, rec)
	}
}

// record picks one that was handed out, a late one rather than an early one, and
// at times somebody else's.
func (w *walk) record() backend.LeaseRecord {
	rec := w.records[max(w.rnd.IntN(len(w.records)), w.rnd.IntN(len(w.records)))]
	if w.rnd.IntN(10) == 0 {
		rec.HolderID = w.holderID()
	}
	return rec
}

func (w *walk) holderID() string { return string(rune('a' + w.rnd.IntN(3))) }

func (w *walk) ttl() time.Duration {
	if w.rnd.IntN(3) == 0 {
		return lapsed
	}
	return live
}

// compare notes an operation and holds its error against the model's.
func (w *walk) compare(got, want error, format string, args ...any) {
	GinkgoHelper()
	w.note(format+" -> %v", append(args, got)...)
	if want == nil {
		Expect(got).NotTo(HaveOccurred(), w.explain)
	} else {
		Expect(got).To(MatchError(want), w.explain)
	}
}

func (w *walk) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// explain says how to see a failure again.
func (w *walk) explain() string {
	return fmt.Sprintf("sequence %d of -ginkgo.seed=%d:\n%s", w.number, GinkgoRandomSeed(), strings.Join(w.log, "\n"))
}
