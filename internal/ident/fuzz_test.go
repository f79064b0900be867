package ident_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aetomala/worklease/backend/memory"
	"github.com/aetomala/worklease/internal/ident"
)

// What Check takes can be stored: it is text of the length allowed, and comes
// back from a backend byte for byte.
func FuzzCheck(f *testing.F) {
	f.Add("billing-run-2026-10", "worker-1")
	f.Add("", "a")
	f.Add("a\x00b", "a\xff")
	f.Add("é", "e\u0301") // NFC and NFD
	f.Add(strings.Repeat("x", ident.MaxBytes), strings.Repeat("ü", ident.MaxBytes/2+1))
	f.Add("a'; DROP TABLE worklease_leases; --", "\"%s\"\n🦫")

	f.Fuzz(func(t *testing.T, workID, holderID string) {
		for _, id := range []string{workID, holderID} {
			fits := id != "" && len(id) <= ident.MaxBytes && utf8.ValidString(id) && !strings.Contains(id, "\x00")
			err := ident.Check("name", id)
			if (err == nil) != fits {
				t.Fatalf("Check(%q) = %v", id, err)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), "name ") || len(err.Error()) > 8*ident.MaxBytes) {
				t.Fatalf("Check(%q) says %q", id, err)
			}
			if err != nil {
				return
			}
		}

		b := memory.New()
		first, err := b.Acquire(t.Context(), workID, holderID, -time.Second)
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.Acquire(t.Context(), workID, holderID+"'", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		cp, err := b.ReadCheckpoint(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		if first.WorkID != workID || first.HolderID != holderID || cp.PrevHolderID != holderID {
			t.Fatalf("%q and %q came back as %q, %q and %q", workID, holderID, first.WorkID, first.HolderID, cp.PrevHolderID)
		}
		if _, err := b.Acquire(t.Context(), workID+" ", holderID, time.Minute); err != nil {
			t.Fatalf("another work ID is held: %v", err)
		}
	})
}
