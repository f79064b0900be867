//go:build linux

package ours

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease/internal/bench/measure"
)

var _ = Describe("pgbench", func() {
	queries := map[string]string{
		"acquire": "SELECT 'acquire', token FROM t WHERE $1::text = 'acquire' AND id = $2 AND $4::bigint > 0\n",
		"release": "UPDATE t SET exit = $5 WHERE $1::text = 'release' AND id = $2 AND token = $4 RETURNING 'release'\n",
	}

	It("is given the statements with variables in the place of parameters", func() {
		p := pgbench{store: &Store{queries: queries}, op: Operation{script: []string{"release"}}}
		Expect(p.script()).To(Equal(
			"UPDATE t SET exit = :mode WHERE :release::text = 'release' AND id = :id AND token = :token RETURNING 'release' AS answered \\gset\n"))
	})

	It("hands the token of an acquisition on", func() {
		p := pgbench{store: &Store{queries: queries}, op: Operation{script: []string{"acquire", "release"}}}
		Expect(p.script()).To(ContainSubstring("\\gset\n\\set token :fencing_token\nUPDATE"))
	})

	It("works on any of the leases that are held, and else on the client's own", func() {
		Expect(pgbench{op: Refused(100)}.header()).To(Equal("\\set id random(0, 99)\n"))
		Expect(pgbench{op: Renew}.header()).To(ContainSubstring("\\set id :client_id\n"))
	})

	It("is read, and what it did before its first report of progress is not timed", func() {
		done, err := reported("progress: 1.0 s, 1000.0 tps, lat 1.0 ms\nprogress: 2.0 s, 2000.0 tps, lat 1.0 ms\n" +
			"number of transactions actually processed: 3000\nlatency\ntps = 1500.0 (without initial connection time)\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(done).To(Equal(measure.Done{Timed: 2000, Elapsed: time.Second, All: 3000}))
	})

	It("that says nothing is an error", func() {
		_, err := reported("pgbench: error")
		Expect(err).To(MatchError(ContainSubstring("pgbench: error")))
	})
})
