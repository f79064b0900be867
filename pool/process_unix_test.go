//go:build unix

package pool_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/aetomala/worklease"
	"github.com/aetomala/worklease/backend/postgres"
	"github.com/aetomala/worklease/pool"
)

// The processes of the spec below are this test binary, told by these to be one
// of them.
const (
	envProcess  = "WORKLEASE_TEST_POOL_PROCESS"
	envDatabase = "WORKLEASE_TEST_POOL_DATABASE"
	envJournal  = "WORKLEASE_TEST_POOL_JOURNAL"
)

const (
	processTTL      = 3 * time.Second
	processInterval = time.Second
	processSteps    = 5 // a run
	processStep     = 300 * time.Millisecond
	processIDs      = 60
)

func TestMain(m *testing.M) {
	name := os.Getenv(envProcess)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := runProcess(name); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// runProcess runs one pool until SIGTERM.
func runProcess(name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := sql.Open("postgres", os.Getenv(envDatabase))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	b, err := postgres.New(db)
	if err != nil {
		return err
	}
	lease, err := worklease.New(b, worklease.Config{TTL: processTTL, HolderID: name})
	if err != nil {
		return err
	}
	journal, err := os.OpenFile(os.Getenv(envJournal), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer journal.Close()
	p, err := pool.New(lease, pool.Config{
		WorkIDs:       prefixed("process-", processIDs),
		IdleInterval:  processInterval,
		RerunInterval: processInterval,
	}, func(ctx context.Context, id string, token worklease.Token, prior worklease.Checkpoint) ([]byte, error) {
		return nil, steps(ctx, lease, journal, name, token, prior)
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// steps goes on where prior ended, a step at a time, and writes each into the
// journal once it was acknowledged.
func steps(ctx context.Context, lease worklease.Lease, journal *os.File, name string, token worklease.Token, prior worklease.Checkpoint) error {
	step := 0
	if prior.State != nil {
		var err error
		if step, err = strconv.Atoi(string(prior.State)); err != nil {
			return err
		}
	}
	write := func(what string) error {
		_, err := fmt.Fprintln(journal, what, token.WorkID(), token.FencingToken(), step, name, time.Now().UnixMicro())
		return err
	}
	if err := write("resumed"); err != nil {
		return err
	}
	for range processSteps {
		select {
		case <-time.After(processStep):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := lease.Checkpoint(ctx, token, []byte(strconv.Itoa(step+1))); err != nil {
			return err
		}
		step++
		if err := write("acknowledged"); err != nil {
			return err
		}
	}
	return nil
}

// line is one line of the journal.
type line struct {
	What    string
	ID      string
	Token   uint64
	Step    int
	Process string
	Micros  int64
}

func (l line) at() time.Time { return time.UnixMicro(l.Micros) }

// readJournal returns the whole lines of the journal.
func readJournal(path string) []line {
	GinkgoHelper()
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	var lines []line
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		var l line
		if _, err := fmt.Sscan(scanner.Text(), &l.What, &l.ID, &l.Token, &l.Step, &l.Process, &l.Micros); err != nil {
			Fail(fmt.Sprintf("journal line %q: %v", scanner.Text(), err))
		}
		lines = append(lines, l)
	}
	return lines
}

// check returns what the journal shows that must not be.
func check(lines []line) []string {
	var wrong []string
	last := map[string]line{}
	for _, l := range lines {
		before, seen := last[l.ID]
		last[l.ID] = l
		switch {
		case !seen:
			if l.What != "resumed" || l.Step != 0 {
				wrong = append(wrong, fmt.Sprintf("%+v does not begin", l))
			}
		case l.Token < before.Token:
			wrong = append(wrong, fmt.Sprintf("%+v after the higher token of %+v", l, before))
		case l.What == "resumed" && l.Token == before.Token:
			wrong = append(wrong, fmt.Sprintf("%+v resumed twice", l))
		// The line of a step may be missing where the process was killed between
		// the acknowledgement and the line; a step that was written may not.
		case l.What == "resumed" && l.Step < before.Step:
			wrong = append(wrong, fmt.Sprintf("%+v resumed before the acknowledged %+v", l, before))
		case l.What == "resumed" && l.Step > before.Step+1:
			wrong = append(wrong, fmt.Sprintf("%+v skipped steps after %+v", l, before))
		case l.What == "acknowledged" && (l.Token != before.Token || l.Step != before.Step+1):
			wrong = append(wrong, fmt.Sprintf("%+v does not follow %+v", l, before))
		}
	}
	return wrong
}

// process is one of the processes under way.
type process struct {
	cmd  *exec.Cmd
	done chan error
	log  string // the file of its standard error
}

func startProcess(name, journal string) *process {
	GinkgoHelper()
	p := &process{cmd: exec.Command(os.Args[0]), done: make(chan error, 1), log: journal + "." + name}
	log, err := os.Create(p.log)
	Expect(err).NotTo(HaveOccurred())
	defer log.Close()
	p.cmd.Env = append(os.Environ(), envProcess+"="+name, envDatabase+"="+database, envJournal+"="+journal)
	p.cmd.Stderr = log
	Expect(p.cmd.Start()).To(Succeed())
	go func() { p.done <- p.cmd.Wait(); close(p.done) }()
	DeferCleanup(func() {
		_ = p.cmd.Process.Kill()
		Eventually(p.done, 10*time.Second).Should(BeClosed())
	})
	return p
}

// end sends the process a signal, waits for its end, and returns the moment of
// the signal and its error.
func (p *process) end(s os.Signal) (time.Time, error) {
	GinkgoHelper()
	at := time.Now()
	Expect(p.cmd.Process.Signal(s)).To(Succeed())
	var err error
	Eventually(p.done, 20*time.Second).Should(Receive(&err), p.said)
	return at, err
}

// said returns what the process complained of.
func (p *process) said() string {
	text, err := os.ReadFile(p.log)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// heldBy returns the ids whose last line before a moment is of that process.
func heldBy(lines []line, process string, before time.Time) []string {
	last := map[string]string{}
	for _, l := range lines {
		if l.at().Before(before) {
			last[l.ID] = l.Process
		}
	}
	maps.DeleteFunc(last, func(_, p string) bool { return p != process })
	return slices.Sorted(maps.Keys(last))
}

// resumedAfter returns which of ids another process has resumed since a moment,
// and when it did first.
func resumedAfter(lines []line, ids []string, than string, since time.Time) map[string]time.Time {
	resumed := map[string]time.Time{}
	for _, l := range lines {
		if _, known := resumed[l.ID]; !known && l.What == "resumed" && l.Process != than && l.at().After(since) && slices.Contains(ids, l.ID) {
			resumed[l.ID] = l.at()
		}
	}
	return resumed
}

var _ = Describe("Three processes with a pool each over 60 ids", func() {
	It("hand every id on, one killed, one stopped, one restarted", func(ctx SpecContext) {
		const within = processTTL + 2*processInterval + 2*time.Second
		journal := filepath.Join(GinkgoT().TempDir(), "journal")
		Expect(os.WriteFile(journal, nil, 0o600)).To(Succeed())
		read := func() []line { return readJournal(journal) }

		procs := map[string]*process{}
		for _, name := range []string{"one", "two", "three"} {
			procs[name] = startProcess(name, journal)
		}
		allWork := func(g Gomega) {
			lines := read()
			for name := range procs {
				g.Expect(heldBy(lines, name, time.Now())).NotTo(BeEmpty(), name)
			}
			g.Expect(resumedAfter(lines, prefixed("process-", processIDs), "", time.Time{})).To(HaveLen(processIDs))
		}
		Eventually(allWork, 30*time.Second, 200*time.Millisecond).Should(Succeed())

		// takenOver proves that what a process held is held again in time.
		takenOver := func(name string, at time.Time) {
			GinkgoHelper()
			ids := heldBy(read(), name, at)
			Expect(ids).NotTo(BeEmpty())
			Eventually(func() map[string]time.Time {
				return resumedAfter(read(), ids, name, at)
			}, 2*within, 200*time.Millisecond).Should(HaveLen(len(ids)))
			for id, t := range resumedAfter(read(), ids, name, at) {
				Expect(t).To(BeTemporally("<=", at.Add(within)), id)
			}
		}

		killed, err := procs["one"].end(syscall.SIGKILL)
		Expect(err).To(HaveOccurred())
		takenOver("one", killed)

		stopped, err := procs["two"].end(syscall.SIGTERM)
		Expect(err).NotTo(HaveOccurred(), procs["two"].said())
		takenOver("two", stopped)

		procs["one"] = startProcess("one-again", journal)
		Eventually(func() []string {
			return heldBy(read(), "one-again", time.Now())
		}, 30*time.Second, 200*time.Millisecond).ShouldNot(BeEmpty())

		for _, name := range []string{"one", "three"} {
			_, err := procs[name].end(syscall.SIGTERM)
			Expect(err).NotTo(HaveOccurred(), procs[name].said())
		}
		lines := read()
		AddReportEntry("lines of the journal", len(lines))
		Expect(check(lines)).To(BeEmpty())
		Expect(number(ctx, heldRows, "process-")).To(BeZero())
	}, SpecTimeout(3*time.Minute))

	DescribeTable("would be caught", func(lines ...line) {
		Expect(check(lines)).NotTo(BeEmpty())
	},
		Entry("beginning in the middle", line{What: "resumed", ID: "a", Token: 1, Step: 3}),
		Entry("acting under a lower token",
			line{What: "resumed", ID: "a", Token: 1}, line{What: "resumed", ID: "a", Token: 2},
			line{What: "acknowledged", ID: "a", Token: 1, Step: 1}),
		Entry("forgetting an acknowledged step",
			line{What: "resumed", ID: "a", Token: 1}, line{What: "acknowledged", ID: "a", Token: 1, Step: 1},
			line{What: "resumed", ID: "a", Token: 2, Step: 0}),
		Entry("skipping steps",
			line{What: "resumed", ID: "a", Token: 1}, line{What: "resumed", ID: "a", Token: 2, Step: 2}),
		Entry("handing one token out twice",
			line{What: "resumed", ID: "a", Token: 1}, line{What: "resumed", ID: "a", Token: 1}),
		Entry("acting under a token that was never handed out",
			line{What: "resumed", ID: "a", Token: 1}, line{What: "acknowledged", ID: "a", Token: 2, Step: 1}),
	)
})
