package worklease

import (
	"fmt"
	"time"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/internal/window"
)

// Token proves one acquisition. [Lease.Acquire] issues it and every other
// method of the same Lease takes it back. It is a small value: copies are the
// same token, and == compares them. The zero Token is fenced everywhere.
type Token struct {
	record backend.LeaseRecord // as the backend gave it
	window *window.Window      // shared by all copies
}

// WorkID returns the name of the work.
func (t Token) WorkID() string { return t.record.WorkID }

// HolderID returns the holder that acquired the lease.
func (t Token) HolderID() string { return t.record.HolderID }

// FencingToken returns the number to fence other stores with: a write of a
// lower token than one seen before comes from a holder that was superseded. The
// numbers of a work ID only rise; gaps mean nothing.
func (t Token) FencingToken() uint64 { return t.record.FencingToken }

// ExpiresAt returns the expiry at the acquisition, by the backend's clock. It
// never moves; [LeaseWindow] tells how long a renewed lease may be relied on.
func (t Token) ExpiresAt() time.Time { return t.record.ExpiresAt }

// String names the work, the holder, the fencing token and the expiry in UTC.
func (t Token) String() string {
	return fmt.Sprintf("worklease.Token{workID=%q holderID=%q fencingToken=%d expiresAt=%s}",
		t.WorkID(), t.HolderID(), t.FencingToken(), t.ExpiresAt().UTC().Format(time.RFC3339Nano))
}

// extend moves the token's window for a write of ttl that started at start.
func (t Token) extend(start time.Time, ttl time.Duration, err error) {
	if err == nil && t.window != nil {
		t.window.Extend(start, ttl)
	}
}

// generation returns the generation of the token's next checkpoint.
func (t Token) generation() int {
	if t.window == nil {
		return 0
	}
	return t.window.Generation()
}

// supersede goes on to the next generation, after a checkpoint without a verdict.
func (t Token) supersede(generation int) {
	if t.window != nil {
		t.window.Supersede(generation)
	}
}
