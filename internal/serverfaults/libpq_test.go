package serverfaults_test

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend/postgres/pqlisten"
	"github.com/aetomala/worklease/internal/serverfaults"
)

func TestMain(m *testing.M) {
	serverfaults.Child()
	os.Exit(m.Run())
}

func TestServerFaults(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "server faults")
}

var _ = Describe("Through lib/pq", serverfaults.Specs("postgres", pqlisten.New))
