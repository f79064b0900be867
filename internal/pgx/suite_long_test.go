//go:build long

package pgxtest

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
)

var _ = Describe("PostgreSQL through pgx, in a schema of its own, for a pooler", Label("long"),
	conformance.RunSuite(newBackend(postgres.WithSchema(schema), postgres.WithTransactionPooler())))
