//go:build long

package pgxlisten_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
)

var _ = Describe("PostgreSQL with notifications through pgx", Label("long"), conformance.RunSuite(func() backend.Backend {
	b, _ := on(db)
	return b
}))
