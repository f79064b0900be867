package conformance

import (
	"bytes"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

func stateSpecs(s *subject) {
	var owner backend.LeaseRecord
	BeforeEach(func(ctx SpecContext) { owner = s.take(ctx, newWorkID(), "a", live) })

	It("18b: a state that was never written reads as nil", limit, func(ctx SpecContext) {
		Expect(s.read(ctx, owner).State).To(BeNil())
	})

	DescribeTable("is erased",
		func(ctx SpecContext, nothing []byte) {
			s.store(ctx, owner, "something")
			Expect(s.Checkpoint(ctx, owner, nothing, live)).To(Succeed())
			Expect(s.read(ctx, owner).State).To(BeNil())
			s.lapse(ctx, owner)
			Expect(s.succeed(ctx, owner.WorkID).State).To(BeNil())
		},
		Entry("18b: by a nil state, which reads as nil", limit, []byte(nil)),
		Entry("18b: by an empty state, which reads as nil", limit, []byte{}),
	)

	It("comes back byte for byte", limit, func(ctx SpecContext) {
		every := make([]byte, 0, 3*256)
		for range 3 {
			for b := range 256 {
				every = append(every, byte(b))
			}
		}
		Expect(s.Checkpoint(ctx, owner, every, live)).To(Succeed())
		Expect(s.read(ctx, owner).State).To(Equal(every))
	})

	It("18c: a slice that its caller edits after Checkpoint changes nothing stored", limit, func(ctx SpecContext) {
		state := []byte("stored")
		Expect(s.Checkpoint(ctx, owner, state, live)).To(Succeed())
		copy(state, "EDITED")
		Expect(s.read(ctx, owner).State).To(Equal([]byte("stored")))
	})

	It("18c: a slice that its reader edits changes nothing stored", limit, func(ctx SpecContext) {
		s.store(ctx, owner, "stored")
		copy(s.read(ctx, owner).State, "EDITED")
		Expect(s.read(ctx, owner).State).To(Equal([]byte("stored")))
	})

	It("18c: what one reader appends, another does not see", limit, func(ctx SpecContext) {
		s.store(ctx, owner, "stored")
		first, second := s.read(ctx, owner).State, s.read(ctx, owner).State
		_ = append(first[:3], "EDITED"...)
		Expect(second).To(Equal([]byte("stored")))
	})

	It("11a: of fifty Checkpoints of 1 MB at once, one stands whole", limit, func(ctx SpecContext) {
		const size = 1 << 20
		var writers sync.WaitGroup
		errs := make([]error, 50)
		for i := range errs {
			writers.Go(func() {
				defer GinkgoRecover()
				errs[i] = s.Checkpoint(ctx, owner, bytes.Repeat([]byte{byte(i + 1)}, size), live)
			})
		}
		writers.Wait()
		Expect(errs).To(HaveEach(Succeed()))

		state := s.read(ctx, owner).State
		Expect(state).To(HaveLen(size))
		Expect(bytes.Count(state, state[:1])).To(Equal(size), "one writer's bytes alone")
	})

	It("11a: a thousand Checkpoints in sequence end with the last", limit, func(ctx SpecContext) {
		for i := range 1000 {
			s.store(ctx, owner, fmt.Sprint("step ", i))
		}
		Expect(s.read(ctx, owner).State).To(Equal([]byte("step 999")))
	})
}
