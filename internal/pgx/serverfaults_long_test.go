//go:build long

package pgxtest

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/aetomala/worklease/backend/postgres/pgxlisten"
	"github.com/aetomala/worklease/internal/serverfaults"
)

func TestMain(m *testing.M) {
	serverfaults.Child()
	os.Exit(m.Run())
}

var _ = Describe("Server faults through pgx", Label("long"), serverfaults.Specs("pgx", pgxlisten.New))
