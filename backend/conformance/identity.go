package conformance

import (
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
)

// lookalikes are names that a store may take for one another, neighbours first of
// all, or for syntax.
var lookalikes = []string{
	"caf\u00e9", "cafe\u0301", "cafe", // composed, decomposed, plain
	"JOB", "Job", "job", "job ", " job", "job\t", "job\n", "job\r\n",
	"stra\u00dfe", "strasse", "\u0130", "i", "\u0131", // case folding of one locale or another
	"\U0001F469\u200D\U0001F680", "\U0001F469\U0001F680", "\U0001F680", // with and without the joiner
	"\uFEFFjob", "j\u200Bob", "j\u00adob", // invisible
	"%", "_", "j%b", "j_b", "*", "?", "[a-z]",
	"'", "''", `"`, `""`, "`", `\`, `\\`, `\n`, "$1", "?1", "--", "; DROP TABLE leases; --", "{}", "null", "NULL", "0", "00",
	strings.Repeat("x", 1024), strings.Repeat("x", 1023), strings.Repeat("\u00e9", 512),
}

func identitySpecs(s *subject) {
	It("17b: work IDs that look alike are leases of their own", limit, func(ctx SpecContext) {
		suffix := newWorkID()[:20]
		owners := make([]backend.LeaseRecord, len(lookalikes))
		for i, name := range lookalikes {
			work := name + suffix
			if len(name) > 1000 {
				work = name[:len(name)-len(suffix)] + suffix
			}
			owners[i] = s.take(ctx, work, "a", live)
			Expect(owners[i].WorkID).To(Equal(work))
			s.store(ctx, owners[i], "state of "+work)
		}
		for _, owner := range owners {
			Expect(s.standing(ctx, owner)).To(Equal(standing{
				Held: true, Exit: backend.ExitExpired, Holder: "a", State: "state of " + owner.WorkID,
			}))
		}
	})

	It("17b: holder IDs come back exactly", limit, func(ctx SpecContext) {
		for _, name := range lookalikes {
			owner := s.take(ctx, newWorkID(), name, live)
			Expect(owner.HolderID).To(Equal(name))
			_, err := s.Acquire(ctx, owner.WorkID, "other", live)
			var held *backend.HeldError
			if errors.As(err, &held) {
				Expect(held.HolderID).To(Equal(name))
			}
			Expect(s.standing(ctx, owner)).To(Equal(standing{Held: true, Exit: backend.ExitExpired, Holder: name}))
		}
	})

	It("17b: holder IDs that look alike are not one another", limit, func(ctx SpecContext) {
		for i, name := range lookalikes {
			owner := s.take(ctx, newWorkID(), name, live)
			other := owner
			other.HolderID = lookalikes[(i+1)%len(lookalikes)]
			Expect(s.Renew(ctx, other, live)).To(MatchError(backend.ErrFenced), "%q and %q", name, other.HolderID)
		}
	})
}
