package backend

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// LeaseInfo is what a store knows about one lease, for people and their tools. It
// was true when it was read; the lease may have moved on since.
type LeaseInfo struct {
	WorkID       string
	HolderID     string // who has the lease, or had it last
	FencingToken uint64
	ExpiresAt    time.Time // in the past once released

	// Live says whether the lease was held when it was read.
	Live bool

	// Exit says how the holder left: ExitNone while the lease is live,
	// ExitExpired once it has lapsed with no declared exit.
	Exit ExitMode

	// PrevExit and PrevHolderID say how the holder before left, and who that was,
	// as [Checkpoint] does.
	PrevExit     ExitMode
	PrevHolderID string

	// StateSize is the length of the stored state in bytes, 0 for none. State is
	// nil unless [ListOptions] ask for it; then it is a slice of the caller's own.
	StateSize int
	State     []byte

	AcquiredAt time.Time // exact to the millisecond
	UpdatedAt  time.Time // of the last write to the lease
}

// ListOptions select the leases that a [Lister] lists: those that meet every
// field. The zero value lists all.
type ListOptions struct {
	// Live lists the leases that are held, Lapsed those that are not: they have
	// run out or were released. Neither and both list all.
	Live, Lapsed bool

	HolderID string   // of this holder, as it has the lease or had it last; empty: of any
	Exit     ExitMode // left like this, see [LeaseInfo]; ExitNone: however

	// WorkIDPrefix lists leases whose work ID begins with these bytes, which stand
	// for themselves alone. On PostgreSQL it saves no reading: List reads the whole
	// table whatever it selects.
	WorkIDPrefix string

	// State asks for the states as well. A state may have 128 MiB.
	State bool
}

// Validate returns an error that names field and value where o holds what no lease
// can have: text that is not UTF-8 or holds a NUL, or an unknown exit. Every Lister
// calls it first.
func (o ListOptions) Validate() error {
	for _, text := range []struct{ field, value string }{
		{"HolderID", o.HolderID},
		{"WorkIDPrefix", o.WorkIDPrefix},
	} {
		switch {
		case !utf8.ValidString(text.value):
			return fmt.Errorf("%s %q is not valid UTF-8", text.field, text.value)
		case strings.IndexByte(text.value, 0) >= 0:
			return fmt.Errorf("%s %q holds a NUL byte", text.field, text.value)
		}
	}
	if o.Exit > ExitExpired {
		return fmt.Errorf("Exit %v is none that a lease can have", o.Exit)
	}
	return nil
}
