package postgres

import (
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
