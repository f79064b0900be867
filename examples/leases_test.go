//go:build unix

package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/aetomala/worklease/backend"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/internal/testkit/pgtest"
	"github.com/aetomala/worklease/internal/testkit/program"
)

var _ = Describe("The command of leases", func() {
	var (
		own string // a database of the spec's own
		b   *postgres.Backend
	)
	BeforeEach(func() {
		own = pgtest.Database()
		var err error
		b, err = postgres.New(pgtest.OpenWithSchema(own))
		Expect(err).NotTo(HaveOccurred())
	})

	take := func(ctx context.Context, workID, holderID string, ttl time.Duration) backend.LeaseRecord {
		GinkgoHelper()
		rec, err := b.Acquire(ctx, workID, holderID, ttl)
		Expect(err).NotTo(HaveOccurred())
		return rec
	}
	furnish := func(ctx context.Context) (held backend.LeaseRecord) {
		GinkgoHelper()
		Expect(b.Release(ctx, take(ctx, "billing", "b", time.Hour), backend.ExitAbandoned)).To(Succeed())
		held = take(ctx, "billing", "a", time.Hour)
		Expect(b.Checkpoint(ctx, held, []byte("half"), time.Hour)).To(Succeed())
		take(ctx, "import\nusers", "a", -time.Hour)
		Expect(b.Release(ctx, take(ctx, "migration", "b", time.Hour), backend.ExitRetired)).To(Succeed())
		return held
	}

	leases := func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, filepath.Join(binaries, "leases"), append([]string{"-dsn", own}, args...)...)
	}
	output := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		return program.Output(ctx, filepath.Join(binaries, "leases"), append([]string{"-dsn", own}, args...)...)
	}
	refusal := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		var stderr bytes.Buffer
		cmd := leases(ctx, args...)
		cmd.Stderr = &stderr
		Expect(cmd.Run()).To(MatchError(ContainSubstring("exit status")))
		return stderr.String()
	}

	It("prints a table whose columns are in line", limit, func(ctx SpecContext) {
		furnish(ctx)
		rows := strings.Split(strings.TrimSuffix(output(ctx), "\n"), "\n")
		Expect(rows).To(HaveLen(4))
		column := strings.Index(rows[0], "LEASE")
		var standing []string
		for _, row := range rows {
			standing = append(standing, strings.Fields(row[column:])[0])
		}
		Expect(standing).To(Equal([]string{"LEASE", "held", "expired", "retired"}))
		Expect(rows[1]).To(HavePrefix("billing "))
		Expect(rows[1]).To(HaveSuffix(" 4 B    abandoned by b"))
		Expect(rows[2]).To(HavePrefix(`"import\nusers" `))
	})

	It("prints JSON, with states where they are asked for, of what is selected", limit, func(ctx SpecContext) {
		held := furnish(ctx)
		type object struct {
			WorkID, HolderID, Exit, PrevExit, PrevHolderID string
			Token                                          uint64
			Live                                           bool
			ExpiresAt                                      time.Time
			StateSize                                      int
			State                                          []byte
		}
		read := func(args ...string) (objects []object) {
			GinkgoHelper()
			for line := range strings.Lines(output(ctx, args...)) {
				var o object
				Expect(json.Unmarshal([]byte(line), &o)).To(Succeed())
				objects = append(objects, o)
			}
			return objects
		}
		objects := read("-json", "-state", "-live")
		Expect(objects).To(HaveLen(1))
		Expect(objects[0].ExpiresAt).To(BeTemporally(">=", held.ExpiresAt))
		objects[0].ExpiresAt = time.Time{}
		Expect(objects[0]).To(Equal(object{
			WorkID: "billing", HolderID: "a", Token: held.FencingToken, Live: true, Exit: "none",
			PrevExit: "abandoned", PrevHolderID: "b", StateSize: 4, State: []byte("half"),
		}))
		for _, selected := range []struct {
			args []string
			want string
		}{
			{[]string{"-json", "-exit", "expired"}, "import\nusers"},
			{[]string{"-json", "-exit", "retired", "-lapsed"}, "migration"},
			{[]string{"-json", "-prefix", "mig", "list"}, "migration"},
			{[]string{"-json", "-holder", "a", "-lapsed"}, "import\nusers"},
		} {
			objects := read(selected.args...)
			Expect(objects).To(HaveLen(1), "%q", selected.args)
			Expect(objects[0].WorkID).To(Equal(selected.want))
			Expect(objects[0].State).To(BeNil())
		}
	})

	It("takes a lease by force, under its token alone", limit, func(ctx SpecContext) {
		held := furnish(ctx)
		Expect(refusal(ctx, "force-release", "billing", fmt.Sprint(held.FencingToken-1))).
			To(HavePrefix(fmt.Sprintf("billing has moved on to token %d: ", held.FencingToken)))
		Expect(refusal(ctx, "force-release", "billing", fmt.Sprint(held.FencingToken+1))).
			To(HavePrefix(fmt.Sprintf("billing is under token %d as yet: ", held.FencingToken)))
		Expect(refusal(ctx, "force-release", "bill", fmt.Sprint(held.FencingToken))).To(Equal("there is no lease on bill\n"))
		Expect(b.Renew(ctx, held, time.Hour)).To(Succeed())
		Expect(output(ctx, "force-release", "billing", fmt.Sprint(held.FencingToken))).To(HavePrefix("billing is free"))
		Expect(b.Renew(ctx, held, time.Hour)).To(MatchError(backend.ErrFenced))
		next := take(ctx, "billing", "c", time.Hour)
		Expect(b.ReadCheckpoint(ctx, next)).To(Equal(backend.Checkpoint{State: []byte("half"), PrevExit: backend.ExitExpired, PrevHolderID: "a"}))
	})

	It("takes nothing by force that was left already", limit, func(ctx SpecContext) {
		left := take(ctx, "migration", "b", time.Hour)
		Expect(b.Release(ctx, left, backend.ExitRetired)).To(Succeed())
		Expect(refusal(ctx, "force-release", "migration", fmt.Sprint(left.FencingToken))).To(Equal("migration is free already: retired\n"))
		Expect(b.ReadCheckpoint(ctx, take(ctx, "migration", "c", time.Hour))).
			To(Equal(backend.Checkpoint{PrevExit: backend.ExitRetired, PrevHolderID: "b"}))
	})

	It("forgets a lease, under its token alone", limit, func(ctx SpecContext) {
		held := furnish(ctx)
		take(ctx, "billing-2", "a", time.Hour)
		Expect(refusal(ctx, "forget", "billing", fmt.Sprint(held.FencingToken-1))).
			To(HavePrefix(fmt.Sprintf("billing has moved on to token %d: ", held.FencingToken)))
		Expect(refusal(ctx, "forget", "bill", fmt.Sprint(held.FencingToken))).To(Equal("there is no lease on bill\n"))
		Expect(output(ctx, "forget", "billing", fmt.Sprint(held.FencingToken))).To(HavePrefix("billing is forgotten"))
		Expect(output(ctx, "-json", "-prefix", "billing")).To(ContainSubstring(`"billing-2"`))
		Expect(output(ctx, "-json", "-prefix", "billing")).NotTo(ContainSubstring(`"billing"`))
	})

	It("sweeps what was retired, and wants a retention", limit, func(ctx SpecContext) {
		furnish(ctx)
		Expect(refusal(ctx, "sweep")).To(ContainSubstring("Retention 0s"))
		Expect(output(ctx, "-retention", "1h", "sweep")).To(Equal("0 deleted\n"))
		Expect(output(ctx, "-retention", "1us", "-include-expired", "sweep")).To(Equal("2 deleted\n"))
	})

	It("checks the database", limit, func(ctx SpecContext) {
		Expect(output(ctx, "check")).To(Equal("all is as it must be\n"))
		Expect(output(ctx, "-pooler", "check")).To(Equal("all is as it must be\n"))
		Expect(refusal(ctx, "-schema", "elsewhere", "check")).To(ContainSubstring(`no table "elsewhere".worklease_leases`))
		_, err := pgtest.Open(own).ExecContext(ctx, "ALTER SEQUENCE worklease_fencing_seq CACHE 10")
		Expect(err).NotTo(HaveOccurred())
		Expect(refusal(ctx, "check")).To(ContainSubstring("CACHE 10"))
	})

	It("watches until it is interrupted", limit, func(ctx SpecContext) {
		furnish(ctx)
		out := gbytes.NewBuffer()
		cmd := leases(ctx, "-watch", "10ms", "-live")
		cmd.Stdout = out
		Expect(cmd.Start()).To(Succeed())
		for range 3 {
			Eventually(out).WithTimeout(time.Minute).Should(gbytes.Say("WORK ID"))
			Eventually(out).WithTimeout(time.Minute).Should(gbytes.Say("billing"))
		}
		Expect(cmd.Process.Signal(syscall.SIGINT)).To(Succeed())
		Expect(cmd.Wait()).To(Succeed())
	})

	It("refuses what it does not know", limit, func(ctx SpecContext) {
		Expect(refusal(ctx, "drop")).To(ContainSubstring(`["drop"]: want list, forget`))
		Expect(refusal(ctx, "forget", "billing")).To(ContainSubstring("forget WORKID TOKEN"))
		Expect(refusal(ctx, "forget", "billing", "x")).To(ContainSubstring(`token "x" is no number`))
		Expect(refusal(ctx, "-exit", "gone")).To(ContainSubstring("want finished, abandoned, retired or expired"))
		Expect(refusal(ctx, "-prefix", "\xff")).To(ContainSubstring(`WorkIDPrefix "\xff"`))
	})

	DescribeTable("refuses flags that would have no effect, and does nothing",
		func(ctx SpecContext, want string, args ...string) {
			held := furnish(ctx)
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "TOKEN", fmt.Sprint(held.FencingToken))
			}
			Expect(refusal(ctx, args...)).To(Equal(want + "\n"))
			Expect(strings.Count(output(ctx, "-json"), "\n")).To(Equal(3))
			Expect(b.Renew(ctx, held, time.Hour)).To(Succeed())
		},
		Entry("of selection, to sweep", limit, "sweep has no use for -holder, -live", "-retention", "1us", "-live", "-holder", "a", "sweep"),
		Entry("of selection, to force-release", limit, "force-release has no use for -exit, -lapsed, -prefix",
			"-lapsed", "-exit", "expired", "-prefix", "b", "force-release", "billing", "TOKEN"),
		Entry("of form, to forget", limit, "forget has no use for -json, -state, -watch",
			"-json", "-state", "-watch", "1s", "forget", "billing", "TOKEN"),
		Entry("of sweep, to list", limit, "list has no use for -include-expired, -retention", "-retention", "1h", "-include-expired"),
		Entry("of sweep, to check", limit, "check has no use for -retention", "-retention", "1h", "check"),
		Entry("states in a table", limit, "-state is shown only with -json", "-state"),
		Entry("a watch into the past", limit, "-watch -1s is below zero", "-watch", "-1s"),
	)

	It("wants a database for all but the story", limit, func(ctx SpecContext) {
		for _, args := range [][]string{{"-live"}, {"list"}, {"-dsn", ""}, {"-retention", "1h", "sweep"}} {
			out, err := exec.CommandContext(ctx, filepath.Join(binaries, "leases"), args...).CombinedOutput()
			Expect(err).To(HaveOccurred(), "%q", args)
			Expect(string(out)).To(HavePrefix("-dsn is needed"))
		}
	})

	It("lists its verbs", limit, func(ctx SpecContext) {
		out, err := exec.CommandContext(ctx, filepath.Join(binaries, "leases"), "-h").CombinedOutput()
		Expect(err).NotTo(HaveOccurred())
		for _, verb := range []string{"list ", "force-release WORKID TOKEN ", "forget WORKID TOKEN ", "sweep ", "check "} {
			Expect(string(out)).To(ContainSubstring("\n  " + verb))
		}
	})
})
