package pgxlisten_test

import (
	"database/sql"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/backend/postgres/pgxlisten"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

func TestPgxlisten(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "pgxlisten")
}

// soon is how long something may take that takes milliseconds.
const soon = 10 * time.Second

var (
	dsn string
	db  *sql.DB
)

var _ = BeforeSuite(func() {
	dsn = pgtest.Database()
	db = pgtest.OpenDriver("pgx", dsn)
	pgtest.ApplySchema(db, "")
})

// on makes a backend that hears through pgx, which ends with the spec.
func on(db *sql.DB) (*postgres.Backend, *postgres.Listener) {
	GinkgoHelper()
	l, err := pgxlisten.New(dsn)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Close)
	b, err := postgres.New(db, postgres.WithNotifications(l))
	Expect(err).NotTo(HaveOccurred())
	return b, l
}

// backgroundReader matches what pgx starts on a connection, of db's pool too, when a
// write takes long, as on a busy machine.
var backgroundReader = gleak.IgnoringCreator("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).Start")

var _ = Describe("A Listener through pgx", func() {
	BeforeEach(func() {
		before := gleak.Goroutines()
		DeferCleanup(func() {
			Eventually(gleak.Goroutines).WithTimeout(soon).ShouldNot(gleak.HaveLeaked(before, backgroundReader))
		})
	})

	It("hears again after its connection was ended, and wakes everybody then", SpecTimeout(time.Minute), func(ctx SpecContext) {
		b, l := on(db)
		rec, err := b.Acquire(ctx, "work", "a", time.Minute)
		Expect(err).NotTo(HaveOccurred())
		free, stop := b.Subscribe("work")
		defer stop()
		_, err = b.Acquire(ctx, "work", "b", time.Minute)
		Expect(err).To(MatchError(backend.ErrLeaseHeld))
		Eventually(free).WithTimeout(soon).Should(Receive())
		Expect(l.Err()).NotTo(HaveOccurred())

		Expect(db.ExecContext(ctx, `
			SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND mode = 'ShareLock' AND classid = 2003792491
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)).Error().NotTo(HaveOccurred())
		Eventually(l.Err).WithTimeout(soon).Should(HaveOccurred())
		Eventually(free).WithTimeout(soon).Should(Receive())
		Expect(l.Err()).NotTo(HaveOccurred())

		Expect(b.Release(ctx, rec, backend.ExitFinished)).To(Succeed())
		Eventually(free).WithTimeout(soon).Should(Receive(Equal(1)))
	})

	It("is refused a dsn that the driver cannot read", func() {
		_, err := pgxlisten.New("postgres://%zz")
		Expect(err).To(MatchError(HavePrefix("pgxlisten: New: dsn: ")))
	})
})
