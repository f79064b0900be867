package docs_test

import (
	"crypto/rand"
	"database/sql"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

var _ = Describe("docs/operations.md", Ordered, func() {
	var db *sql.DB
	role := "app_" + strings.ToLower(rand.Text())

	BeforeAll(func() {
		db = pgtest.OpenWithSchema(pgtest.Database())
		_, err := db.Exec("CREATE ROLE " + role)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			_, err := db.Exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
			Expect(err).NotTo(HaveOccurred())
		})
	})

	It("has SQL that runs", func(ctx SpecContext) {
		blocks := sqlBlock.FindAllStringSubmatch(read("docs/operations.md"), -1)
		Expect(len(blocks)).To(BeNumerically(">=", 8))
		for _, block := range blocks {
			statement := regexp.MustCompile(`\bapp\b`).ReplaceAllString(block[1], role)
			_, err := db.ExecContext(ctx, statement)
			Expect(err).NotTo(HaveOccurred(), statement)
		}
	}, SpecTimeout(time.Minute))
})
