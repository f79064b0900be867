package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// Log appends events to a file. It is safe for concurrent use, and what it has
// written survives the end of the process.
type Log struct {
	file *os.File
	proc string
	seq  atomic.Int64
}

// Open opens the log of the process proc in dir.
func Open(dir, proc string) (*Log, error) {
	file, err := os.OpenFile(filepath.Join(dir, proc+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{file: file, proc: proc}, nil
}

// Next returns a number for an operation.
func (l *Log) Next() int64 { return l.seq.Add(1) }

// Write appends e in one write, so that no kill cuts it in two. A log that
// cannot be written makes the run worthless, hence the panic.
func (l *Log) Write(e Event) {
	e.Proc = l.proc
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("history: %v", err))
	}
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Load reads every log in dir.
func Load(dir string) (*History, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("history: no logs in %s", dir)
	}
	var events []Event
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		more, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("history: %s: %w", file, err)
		}
		events = append(events, more...)
	}
	return Join(events)
}

// Parse reads the lines of a log. A last line that was cut off is left out.
func Parse(text []byte) ([]Event, error) {
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		text = text[:end+1]
	}
	var events []Event
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// Join joins calls with their returns.
func Join(events []Event) (*History, error) {
	h := &History{LastSeen: map[string]int64{}}
	type key struct {
		proc string
		seq  int64
	}
	open := map[key]*Operation{}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range events {
		h.LastSeen[e.Proc] = max(h.LastSeen[e.Proc], e.At)
		k := key{e.Proc, e.Seq}
		switch e.Kind {
		case Call:
			o := &Operation{Event: e, Start: e.At, End: Never}
			o.Result = Unknown
			open[k] = o
			h.Operations = append(h.Operations, o)
		case Return:
			o := open[k]
			if o == nil || o.End != Never {
				return nil, fmt.Errorf("history: %s returns from %d, which it did not call", e.Proc, e.Seq)
			}
			o.Event, o.End = e, e.At
		case Window:
			h.Windows = append(h.Windows, e)
		case Row:
			h.Rows = append(h.Rows, e)
		case Audit:
			h.Audits = append(h.Audits, e)
		default:
			return nil, fmt.Errorf("history: unknown kind %q", e.Kind)
		}
	}
	return h, nil
}
