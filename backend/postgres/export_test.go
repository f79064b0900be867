package postgres

import (
	"context"
	"fmt"
	"strings"
)

// Statements are the names of all statements.
var Statements = statementNames

// MaxState bounds a checkpoint.
const MaxState = maxState

// SweepBatch is how many rows one statement of Sweep deletes.
const SweepBatch = sweepBatch

// ReadExitMode reads a stored exit.
var ReadExitMode = exitMode

// Text returns the text of a statement.
func (b *Backend) Text(name string) string { return b.statements[name].text }

// Parameters returns how many parameters a statement has.
func (b *Backend) Parameters(name string) (n int) {
	for strings.Contains(b.statements[name].text, fmt.Sprintf("$%d", n+1)) {
		n++
	}
	return n
}

// Misroute runs the text of another statement in place of name's, as a pooler
// does that mixes up what its clients prepared.
func (b *Backend) Misroute(name, other string) {
	b.statements[name] = &statement{text: b.statements[other].text}
}

// MisrouteText runs a stranger's statement in place of name's.
func (b *Backend) MisrouteText(name, text string) {
	b.statements[name] = &statement{text: text}
}

// Fragment returns the text of a query that is part of others.
func (b *Backend) Fragment(name string) string {
	t, err := newTexts(b.listener.words.schema, true)
	if err != nil {
		panic(err)
	}
	text, err := t.of(name)
	if err != nil {
		panic(err)
	}
	return text
}

// Probe tells all listeners nothing.
func (b *Backend) Probe(ctx context.Context) error { return b.probe(ctx) }

// Words returns what a Listener says on its connection.
func (l *Listener) Words() []string { return []string{l.words.listen, l.words.mark, l.words.unmark} }

// Wait waits for a lease that is held, until stop.
func (l *Listener) Wait(workID string) (stop func()) {
	_, stop = l.board.Subscribe(workID)
	l.want(workID, nil)
	return stop
}
