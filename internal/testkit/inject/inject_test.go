package inject_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
	"github.com/aetomala/worklease/internal/testkit/inject"
)

func TestInject(t *testing.T) {
	bubble.Keep(t)
	RegisterFailHandler(Fail)
	RunSpecs(t, "inject")
}

var _ = BeforeEach(func() {
	before := gleak.Goroutines()
	DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
})

const ttl = time.Minute

var errNet = errors.New("connection reset")

var _ = Describe("Around", func() {
	It("passes every call on and counts it", func(ctx SpecContext) {
		faults, b := inject.Around(memory.New())
		rec, err := b.Acquire(ctx, "w", "a", ttl)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Checkpoint(ctx, rec, []byte("s"), ttl)).To(Succeed())
		Expect(b.Renew(ctx, rec, ttl)).To(Succeed())
		Expect(b.ReadCheckpoint(ctx, rec)).To(HaveField("State", []byte("s")))
		Expect(b.Release(ctx, rec, backend.ExitRetired)).To(Succeed())
		Expect(b.Sweep(ctx, backend.SweepOptions{Retention: -ttl})).To(BeNumerically("==", 1))
		Expect(b.Forget(ctx, rec)).To(MatchError(backend.ErrFenced))

		for _, op := range []inject.Op{
			inject.Acquire, inject.Checkpoint, inject.Renew, inject.ReadCheckpoint,
			inject.Release, inject.Sweep, inject.Forget,
		} {
			Expect(faults.Count(op)).To(Equal(1), string(op))
			Expect(faults.Out(op)).To(BeZero(), string(op))
		}
	})

	It("fails as often as it is told, then passes", func(ctx SpecContext) {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Times(2, inject.Fail(errNet)))
		for range 2 {
			_, err := b.Acquire(ctx, "w", "a", ttl)
			Expect(err).To(MatchError(errNet))
		}
		Expect(b.Acquire(ctx, "w", "a", ttl)).To(HaveField("HolderID", "a"))
	})

	It("can make a call and lose its reply", func(ctx SpecContext) {
		faults, b := inject.Around(memory.New())
		faults.On(inject.Acquire, inject.Times(1, inject.LoseReply(errNet)))
		Expect(b.Acquire(ctx, "w", "a", ttl)).Error().To(MatchError(errNet))
		Expect(b.Acquire(ctx, "w", "b", ttl)).Error().To(MatchError(backend.ErrLeaseHeld))
	})

	It("can hold a call back until it is let go, whatever its ctx says", func() {
		bubble.Run(func() {
			released := make(chan struct{})
			time.AfterFunc(time.Hour, func() { close(released) })
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Hang(released))
			ctx, cancel := context.WithCancel(context.Background())
			cancel()

			start := time.Now()
			Expect(b.Acquire(ctx, "w", "a", ttl)).To(HaveField("HolderID", "a"))
			Expect(time.Since(start)).To(Equal(time.Hour))
		})
	})

	It("can do nothing until ctx is done", func() {
		bubble.Run(func() {
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.UntilDone)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			Expect(b.Acquire(ctx, "w", "a", ttl)).Error().To(MatchError(context.DeadlineExceeded))
		})
	})

	DescribeTable("can delay", func(fault inject.Fault, remaining time.Duration) {
		bubble.Run(func() {
			ctx := context.Background()
			faults, b := inject.Around(memory.New())
			faults.On(inject.Acquire, inject.Times(1, fault))
			_, err := b.Acquire(ctx, "w", "a", ttl)
			Expect(err).NotTo(HaveOccurred())

			_, err = b.Acquire(ctx, "w", "b", ttl)
			var held *backend.HeldError
			Expect(errors.As(err, &held)).To(BeTrue())
			Expect(held.Remaining).To(Equal(remaining))
		})
	},
		Entry("the answer", inject.Slow(10*time.Second), ttl-10*time.Second),
		Entry("the call", inject.Late(10*time.Second), ttl),
	)
})

// The optional interfaces that the library asks for are tried in the selections that
// our backends have. One that is added to package backend must be added here, which in
// turn fails until it is forwarded.
var _ = Describe("Optional interfaces", func() {
	has := map[string]func(backend.Backend) bool{
		"Restorer":     func(b backend.Backend) bool { _, ok := b.(backend.Restorer); return ok },
		"BatchRenewer": func(b backend.Backend) bool { _, ok := b.(backend.BatchRenewer); return ok },
		"Sequencer":    func(b backend.Backend) bool { _, ok := b.(backend.Sequencer); return ok },
		"Classifier":   func(b backend.Backend) bool { _, ok := b.(backend.Classifier); return ok },
		"Notifier":     tells,
		"Transactor":   tentative,
	}

	DescribeTable("are forwarded exactly when the inner backend has them", func(inner backend.Backend) {
		_, b := inject.Around(inner)
		for name, in := range has {
			Expect(in(b)).To(Equal(in(inner)), name)
		}
	},
		Entry("none", plain{memory.New()}),
		Entry("those of memory", memory.New()),
		Entry("those of PostgreSQL", struct {
			*memory.Backend
			classifier
			transactor
		}{memory.New(), classifier{}, transactor{}}),
	)

	It("are refused in any other selection, which would go unnoticed", func() {
		Expect(func() {
			inject.Around(struct {
				plain
				backend.Restorer
			}{plain{memory.New()}, memory.New()})
		}).To(Panic())
	})

	It("are all known here", func() {
		names := []string{"Lister", "ForceReleaser"} // for operators: the library calls neither
		for name := range has {
			names = append(names, name)
		}
		Expect(optional()).To(ConsistOf(names))
	})
})

// tells reports whether b is a Notifier that tells somebody.
func tells(b backend.Backend) bool {
	n, ok := b.(backend.Notifier)
	if !ok {
		return false
	}
	free, stop := n.Subscribe("w")
	stop()
	return free != nil
}

// tentative reports whether b is a Transactor that calls a checkpoint tentative.
func tentative(b backend.Backend) bool {
	t, ok := b.(backend.Transactor)
	return ok && t.Tentative(context.WithValue(context.Background(), transactor{}, true))
}

type transactor struct{}

func (transactor) Tentative(ctx context.Context) bool { return ctx.Value(transactor{}) != nil }

type plain struct{ backend.Backend }

type classifier struct{}

func (classifier) Transient(error) bool { return true }

// optional returns the interfaces that package backend exports, but for Backend.
func optional() []string {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "backend", "*.go"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		Expect(err).NotTo(HaveOccurred())
		for node := range ast.Preorder(file) {
			spec, ok := node.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() || spec.Name.Name == "Backend" {
				continue
			}
			if _, ok := spec.Type.(*ast.InterfaceType); ok {
				names = append(names, spec.Name.Name)
			}
		}
	}
	return names
}
