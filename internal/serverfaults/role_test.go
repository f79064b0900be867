//go:build long

package serverfaults_test

import (
	"context"
	"database/sql"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/serverfaults"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
)

// 25b and 26a: the whole suite, as a role that may do no more than it must and
// has odd session defaults.
var _ = Describe("As a role with the least grants and odd defaults", Serial, Ordered, ContinueOnFailure, Label("long"), func() {
	var db *sql.DB
	BeforeAll(func() {
		db = pgtest.Open(serverfaults.Restricted(context.Background(), pgtest.Database(), serverfaults.OddDefaults...))
	})
	Context("the backend", conformance.RunSuite(func() backend.Backend {
		b, err := postgres.New(db)
		Expect(err).NotTo(HaveOccurred())
		return b
	}))
})
