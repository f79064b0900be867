package worklease_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/testkit/bubble"
)

// odd is a backend whose clock and tokens are its own.
type odd struct{ backend.Backend }

var oddExpiry = time.Date(2026, 1, 1, 13, 0, 0, 0, time.FixedZone("CET", 3600))

func (odd) Acquire(_ context.Context, workID, holderID string, _ time.Duration) (backend.LeaseRecord, error) {
	return backend.LeaseRecord{WorkID: workID, HolderID: holderID, FencingToken: 1 << 62, ExpiresAt: oddExpiry}, nil
}

var _ = Describe("Token", func() {
	It("keeps the backend's record unchanged", func() {
		token := acquire(newLease(odd{memory.New()}, "h"), "w")
		Expect(token.FencingToken()).To(Equal(uint64(1 << 62)))
		Expect(token.ExpiresAt()).To(Equal(oddExpiry))
	})

	It("prints work ID, holder, number and expiry in UTC", func() {
		token := acquire(newLease(odd{memory.New()}, "h"), "w")
		Expect(token.String()).To(Equal(
			`worklease.Token{workID="w" holderID="h" fencingToken=4611686018427387904 expiresAt=2026-01-01T12:00:00Z}`))
	})

	It("prints as its zero value too", func() {
		Expect(worklease.Token{}.String()).To(Equal(
			`worklease.Token{workID="" holderID="" fencingToken=0 expiresAt=0001-01-01T00:00:00Z}`))
	})

	It("never changes, however often the lease is renewed", inBubble(func() {
		lease := newLease(memory.New(), "a")
		token := acquire(lease, "w")
		before, text := token, token.String()
		bubble.Sleep(time.Second)
		Expect(lease.Renew(background, token)).To(Succeed())
		Expect(token).To(Equal(before))
		Expect(token.String()).To(Equal(text))
	}))

	It("equals its copies and no other acquisition", func() {
		lease := newLease(memory.New(), "a")
		token := acquire(lease, "w")
		tokens := map[worklease.Token]bool{token: true}
		Expect(tokens).To(HaveKey(token))
		Expect(tokens).NotTo(HaveKey(acquire(lease, "another")))
	})
})
