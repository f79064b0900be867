package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

const (
	work  = "work"
	ttl   = time.Minute
	bound = time.Minute // of specs
)

// noLeaks holds a spec to the goroutines there were. What the spec opens itself
// must be opened after it.
func noLeaks() {
	before := gleak.Goroutines()
	DeferCleanup(func() {
		Eventually(gleak.Goroutines).WithTimeout(10 * time.Second).ShouldNot(gleak.HaveLeaked(before))
	})
}

var specSchemas atomic.Int64

// ownSchema makes a schema for this spec alone, empty unless applied, and holds
// the spec to the goroutines there were. The DSN that it returns has it as the
// search_path.
func ownSchema(applied bool) string {
	GinkgoHelper()
	noLeaks()
	name := fmt.Sprintf("spec_%d", specSchemas.Add(1))
	if applied {
		pgtest.ApplySchema(db, name)
	}
	return with(dsn, "search_path", name)
}

// with adds a parameter of the session to a DSN.
func with(dsn, name, value string) string {
	GinkgoHelper()
	u, err := url.Parse(dsn)
	Expect(err).NotTo(HaveOccurred())
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// on makes a backend on db.
func on(db *sql.DB, opts ...postgres.Option) *postgres.Backend {
	GinkgoHelper()
	b, err := postgres.New(db, opts...)
	Expect(err).NotTo(HaveOccurred())
	return b
}

func acquire(ctx context.Context, b backend.Backend, work, holder string) backend.LeaseRecord {
	GinkgoHelper()
	rec, err := b.Acquire(ctx, work, holder, ttl)
	Expect(err).NotTo(HaveOccurred())
	return rec
}

func read(ctx context.Context, b backend.Backend, rec backend.LeaseRecord) backend.Checkpoint {
	GinkgoHelper()
	cp, err := b.ReadCheckpoint(ctx, rec)
	Expect(err).NotTo(HaveOccurred())
	return cp
}

// fence is a record as a postgres.Fence.
type fence struct{ rec backend.LeaseRecord }

func (f fence) WorkID() string       { return f.rec.WorkID }
func (f fence) HolderID() string     { return f.rec.HolderID }
func (f fence) FencingToken() uint64 { return f.rec.FencingToken }

// expectNoVerdict holds that err says nothing about the lease.
func expectNoVerdict(err error) {
	GinkgoHelper()
	Expect(err).To(HaveOccurred())
	for _, verdict := range []error{backend.ErrFenced, backend.ErrLeaseHeld, backend.ErrLeaseExpired, backend.ErrInvalidExitMode} {
		Expect(err).NotTo(MatchError(verdict))
	}
}
