package ours

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aetomala/worklease/internal/bench/measure"
)

// pgbench is an operation's statements run by pgbench, prepared and with the same
// arguments: the limit of what a client can get out of the server.
type pgbench struct {
	program string
	store   *Store
	op      Operation
}

// Limit is the operation as pgbench does it.
func (o Operation) Limit(s *Store, program string) measure.Work {
	return pgbench{program, s, o}
}

// arguments are those of each statement, as pgbench's variables. $1 is the
// statement's own name.
var arguments = map[string][]string{
	"acquire":    {"acquire", "id", "holder", "ttl"},
	"renew":      {"renew", "id", "holder", "token", "ttl"},
	"checkpoint": {"checkpoint", "id", "holder", "token", "ttl", "state", "generation"},
	"release":    {"release", "id", "holder", "token", "mode"},
}

var parameter = regexp.MustCompile(`\$(\d)`)

// script writes the operation for pgbench. \gset fails where a statement answers
// no row, so that a guarded write which wrote nothing is noticed.
func (p pgbench) script() string {
	var text strings.Builder
	for _, name := range p.op.script {
		statement := parameter.ReplaceAllStringFunc(p.store.queries[name], func(number string) string {
			return ":" + arguments[name][number[1]-'1']
		})
		// A column needs a name that a variable may have.
		last := strings.LastIndex(statement, "'"+name+"'") + len(name) + 2
		fmt.Fprintf(&text, "%s AS answered%s \\gset\n", statement[:last], strings.TrimRight(statement[last:], "\n"))
		if name == "acquire" && len(p.op.script) > 1 {
			text.WriteString("\\set token :fencing_token\n")
		}
	}
	return text.String()
}

// header sets which lease a client works on, and its token where it is held.
func (p pgbench) header() string {
	if p.op.before == nil && p.op.rows.held {
		return fmt.Sprintf("\\set id random(0, %d)\n", p.op.rows.count-1)
	}
	return "\\set id :client_id\n\\set token :client_id + 1\n"
}

// Prepare implements [measure.Work]. What a client of ours acquires before it
// begins is held from the start.
func (p pgbench) Prepare(ctx context.Context) error {
	r := p.op.rows
	r.held = r.held || p.op.before != nil
	return p.store.lay(ctx, r)
}

// Run implements [measure.Work]. pgbench takes whole seconds, and has one more
// before time is taken.
func (p pgbench) Run(ctx context.Context, clients int, length time.Duration) (measure.Done, error) {
	file, err := os.CreateTemp("", "worklease-bench-*.sql")
	if err != nil {
		return measure.Done{}, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(p.header() + p.script())
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return measure.Done{}, err
	}

	args := []string{
		"-n", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)),
		"-T", strconv.Itoa(1 + int(math.Ceil(length.Seconds()))), "-P", "1", "-f", file.Name(),
	}
	for name, value := range map[string]string{
		"acquire": "acquire", "renew": "renew", "checkpoint": "checkpoint", "release": "release",
		"holder": holder, "ttl": strconv.FormatInt(ttl.Microseconds(), 10), "mode": "finished",
		"state": `\x` + hex.EncodeToString(state), "generation": "0",
	} {
		args = append(args, "-D", name+"="+value)
	}
	out, err := exec.CommandContext(ctx, p.program, append(args, p.store.dsn)...).CombinedOutput()
	if err != nil {
		return measure.Done{}, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	return reported(string(out))
}

var report = regexp.MustCompile(`(?s)progress: ([\d.]+) s, ([\d.]+) tps.*` +
	`number of transactions actually processed: (\d+)\n.*tps = ([\d.]+) \(without initial connection time\)`)

// reported reads what pgbench says. What it did up to its first report of progress is
// not timed.
func reported(out string) (measure.Done, error) {
	texts := report.FindStringSubmatch(out)
	if texts == nil {
		return measure.Done{}, fmt.Errorf("pgbench said\n%s", out)
	}
	var figures [4]float64
	for i := range figures {
		var err error
		if figures[i], err = strconv.ParseFloat(texts[i+1], 64); err != nil {
			return measure.Done{}, err
		}
	}
	warm, rate, all, overall := figures[0], figures[1], figures[2], figures[3]
	return measure.Done{
		Timed:   int(math.Round(all - rate*warm)),
		Elapsed: time.Duration((all/overall - warm) * float64(time.Second)),
		All:     int(all),
	}, nil
}
