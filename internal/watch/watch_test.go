package watch_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/watch"
)

var _ = Describe("Watch", func() {
	var (
		w      *watch.Watch
		ctx    context.Context
		open   bool
		isOpen = func() bool { return open }
	)
	BeforeEach(func() {
		open = true
		w = watch.New("mine")
		ctx = watch.With(context.Background(), w)
	})

	It("has no renewal at first, and no window", func() {
		Expect(w.Attached()).To(BeFalse())
		Expect(w.Open()).To(BeFalse())
		Expect(w.Lost()).To(Succeed())
	})

	It("follows the renewal of its token, found in a derived context too", func() {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		Expect(watch.Attach(derived, "mine", isOpen)).To(BeIdenticalTo(w))
		Expect(w.Attached()).To(BeTrue())
		Expect(w.Open()).To(BeTrue())
		open = false
		Expect(w.Open()).To(BeFalse())
	})

	It("takes no renewal of another token", func() {
		Expect(watch.Attach(ctx, "another", isOpen)).To(BeNil())
		Expect(w.Attached()).To(BeFalse())
	})

	It("takes no second renewal", func() {
		Expect(watch.Attach(ctx, "mine", isOpen)).To(BeIdenticalTo(w))
		Expect(watch.Attach(ctx, "mine", isOpen)).To(BeNil())
	})

	It("is not found in a context without one", func() {
		Expect(watch.Attach(context.Background(), "mine", isOpen)).To(BeNil())
	})

	It("keeps the first reason of a loss", func() {
		first, second := errors.New("first"), errors.New("second")
		w.Lose(first)
		w.Lose(second)
		Expect(w.Lost()).To(BeIdenticalTo(first))
	})
})
