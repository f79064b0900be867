package gate_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/internal/gate"
	"github.com/aetomala/worklease/internal/testkit/bubble"
)

func TestGate(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/gate")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

// queue is a gate and who came through it. It lives in a bubble.
type queue struct {
	gate *gate.Gate

	mu      sync.Mutex
	entered []string
	refused []string
}

// come lets name come to the gate and returns when it has entered or waits.
func (q *queue) come(ctx context.Context, name string, urgent bool) {
	go func() {
		err := q.gate.Enter(ctx, urgent)
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			q.refused = append(q.refused, name)
			return
		}
		q.entered = append(q.entered, name)
	}()
	synctest.Wait()
}

// leave gives n places back, one after the other.
func (q *queue) leave(n int) {
	for range n {
		q.gate.Leave()
		synctest.Wait()
	}
}

var _ = Describe("Gate", func() {
	bg := context.Background()

	It("lets as many in as it has places, and the next when one leaves", func() {
		bubble.Run(func() {
			q := &queue{gate: gate.New(2)}
			for _, name := range []string{"a", "b", "c"} {
				q.come(bg, name, false)
			}
			Expect(q.entered).To(Equal([]string{"a", "b"}))
			q.leave(1)
			Expect(q.entered).To(Equal([]string{"a", "b", "c"}))
			q.leave(2)
			q.come(bg, "d", false)
			Expect(q.entered).To(HaveLen(4))
		})
	})

	It("lets the urgent in before all others, and each kind in its order", func() {
		bubble.Run(func() {
			q := &queue{gate: gate.New(1)}
			q.come(bg, "first", false)
			q.come(bg, "n1", false)
			q.come(bg, "u1", true)
			q.come(bg, "n2", false)
			q.come(bg, "u2", true)
			q.leave(5)
			Expect(q.entered).To(Equal([]string{"first", "u1", "u2", "n1", "n2"}))
		})
	})

	It("gives the turn of a waiter who was cancelled to the next", func() {
		bubble.Run(func() {
			ctx, cancel := context.WithCancel(bg)
			q := &queue{gate: gate.New(1)}
			q.come(bg, "first", false)
			q.come(ctx, "cancelled", false)
			q.come(ctx, "cancelled too", true)
			q.come(bg, "next", false)
			cancel()
			synctest.Wait()
			Expect(q.refused).To(ConsistOf("cancelled", "cancelled too"))
			q.leave(1)
			Expect(q.entered).To(Equal([]string{"first", "next"}))
		})
	})

	It("lets nobody in whose ctx is done, though there is room", func() {
		ctx, cancel := context.WithCancel(bg)
		cancel()
		g := gate.New(1)
		Expect(g.Enter(ctx, true)).To(MatchError(context.Canceled))
		Expect(g.Enter(bg, false)).To(Succeed())
	})

	It("neither loses nor makes a place when a waiter is cancelled at the moment of its turn", func() {
		for range 500 {
			bubble.Run(func() {
				g := gate.New(1)
				Expect(g.Enter(bg, false)).To(Succeed())
				ctx, cancel := context.WithCancel(bg)
				var both sync.WaitGroup
				both.Go(func() {
					if g.Enter(ctx, false) == nil {
						g.Leave()
					}
				})
				both.Go(cancel)
				g.Leave()
				both.Wait()

				q := &queue{gate: g}
				q.come(bg, "a", false)
				q.come(bg, "b", false)
				Expect(q.entered).To(Equal([]string{"a"}))
				q.leave(2)
				Expect(q.entered).To(Equal([]string{"a", "b"}))
			})
		}
	})

	It("never holds more than its places, however many come and give up", func() {
		const places = 3
		var (
			g             = gate.New(places)
			mu            sync.Mutex
			inside, most  int
			through, gone int
			all           sync.WaitGroup
		)
		note := func(change func()) {
			mu.Lock()
			defer mu.Unlock()
			change()
		}
		come := func(giveUp, urgent bool) {
			ctx, cancel := context.WithCancel(bg)
			defer cancel()
			if giveUp {
				go cancel()
			}
			if g.Enter(ctx, urgent) != nil {
				note(func() { gone++ })
				return
			}
			note(func() { inside++; through++; most = max(most, inside) })
			runtime.Gosched()
			note(func() { inside-- })
			g.Leave()
		}
		for i := range 64 {
			all.Go(func() {
				for n := range 200 {
					come((i+n)%3 == 0, i%2 == 0)
				}
			})
		}
		all.Wait()
		Expect(most).To(Equal(places))
		Expect(through).To(BeNumerically(">=", 64*200*3/5), "only the cancelled gave up")
		Expect(through + gone).To(Equal(64 * 200))
		for range places {
			Expect(g.Enter(bg, false)).To(Succeed(), "all places are free again")
		}
	})
})
