package backend_test

import (
	"fmt"
	"testing"

	"github.com/aetomala/worklease/backend"
)

// The modes have five names, each its own; every other value prints as its number.
func FuzzExitModeString(f *testing.F) {
	for _, m := range []backend.ExitMode{0, 1, 2, 3, 4, 5, 7, 255} {
		f.Add(uint8(m))
	}
	names := map[string]backend.ExitMode{
		"none": backend.ExitNone, "finished": backend.ExitFinished, "abandoned": backend.ExitAbandoned,
		"retired": backend.ExitRetired, "expired": backend.ExitExpired,
	}

	f.Fuzz(func(t *testing.T, n uint8) {
		m := backend.ExitMode(n)
		named, ok := names[m.String()]
		switch {
		case ok && named != m:
			t.Fatalf("%d prints as %v, which is %d", n, m, named)
		case !ok && m.String() != fmt.Sprintf("ExitMode(%d)", n):
			t.Fatalf("%d prints as %q", n, m)
		case m.Declarable() && (!ok || m == backend.ExitNone || m == backend.ExitExpired):
			t.Fatalf("%v can be declared", m)
		}
	})
}
