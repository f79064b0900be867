//go:build long

package postgres_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
)

var _ = Describe("PostgreSQL with notifications, in another schema, behind a transaction pooler", Label("long"),
	conformance.RunSuite(func() backend.Backend {
		return open(postgres.WithSchema(oddSchema), postgres.WithTransactionPooler(), postgres.WithNotifications(listening(dsn)))
	}))
