package pgtest

import (
	"context"
	"database/sql"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/conformance"
	"github.com/aetomala/worklease/backend/postgres"
)

// TransactionSuite returns the conformance suite of transactions, for those of
// database/sql and for those that a caller begins by hand on a connection of open.
func TransactionSuite(newBackend func() backend.Backend, open func() *sql.DB) func() {
	return func() {
		Describe("of database/sql", conformance.RunTransactionSuite(newBackend,
			func(ctx context.Context, _ backend.Backend) conformance.Transaction {
				GinkgoHelper()
				tx, err := open().BeginTx(ctx, nil)
				Expect(err).NotTo(HaveOccurred())
				return conformance.Transaction{Context: postgres.WithTx(ctx, tx), Commit: tx.Commit, Rollback: tx.Rollback}
			}))
		Describe("begun by hand", conformance.RunTransactionSuite(newBackend,
			func(ctx context.Context, _ backend.Backend) conformance.Transaction {
				GinkgoHelper()
				conn, err := open().Conn(ctx)
				Expect(err).NotTo(HaveOccurred())
				_, err = conn.ExecContext(ctx, "BEGIN")
				Expect(err).NotTo(HaveOccurred())
				end := func(statement string) func() error {
					return func() error {
						defer conn.Close() // the second end finds it closed
						_, err := conn.ExecContext(ctx, statement)
						return err
					}
				}
				return conformance.Transaction{Context: postgres.WithConn(ctx, conn), Commit: end("COMMIT"), Rollback: end("ROLLBACK")}
			}))
	}
}
