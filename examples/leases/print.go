package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/aetomala/worklease/backend"
)

// printer prints leases one after the other, as they come.
type printer interface {
	print(info backend.LeaseInfo) error
	close() error
}

// table aligns columns, block by block: one of a million leases must not be kept as a
// whole until the widths are known.
type table struct {
	w    *tabwriter.Writer
	now  time.Time
	rows int
}

const block = 500

func newTable(out io.Writer, now time.Time) printer {
	t := &table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), now: now}
	fmt.Fprintln(t.w, "WORK ID\tHOLDER\tTOKEN\tLEASE\tEXPIRY\tTAKEN\tSTATE\tBEFORE")
	return t
}

func (t *table) print(info backend.LeaseInfo) error {
	before := "-"
	if info.PrevExit != backend.ExitNone {
		before = fmt.Sprintf("%s by %s", info.PrevExit, text(info.PrevHolderID))
	}
	fmt.Fprintf(t.w, "%s\t%s\t%d\t%s\t%s\t%s\t%d B\t%s\n",
		text(info.WorkID), text(info.HolderID), info.FencingToken, lease(info),
		t.relative(info.ExpiresAt), t.relative(info.AcquiredAt), info.StateSize, before)
	if t.rows++; t.rows%block == 0 {
		return t.w.Flush()
	}
	return nil
}

func (t *table) close() error { return t.w.Flush() }

// relative says how far at is from now, by this machine's clock.
func (t *table) relative(at time.Time) string {
	if d := at.Sub(t.now).Round(time.Second); d > 0 {
		return "in " + d.String()
	}
	return t.now.Sub(at).Round(time.Second).String() + " ago"
}

// lease says what became of a lease in a word.
func lease(info backend.LeaseInfo) string {
	if info.Live {
		return "held"
	}
	return info.Exit.String()
}

// text is a name as it is, or quoted where that would spoil a table or a terminal.
func text(name string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '"' }
	if name == "" || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

// lines are objects of JSON, one a line.
type lines struct{ encoder *json.Encoder }

func newLines(out io.Writer) printer { return lines{json.NewEncoder(out)} }

func (l lines) print(info backend.LeaseInfo) error {
	return l.encoder.Encode(struct {
		WorkID     string    `json:"workID"`
		HolderID   string    `json:"holderID"`
		Token      uint64    `json:"token"`
		Live       bool      `json:"live"`
		Exit       string    `json:"exit"`
		ExpiresAt  time.Time `json:"expiresAt"`
		AcquiredAt time.Time `json:"acquiredAt"`
		UpdatedAt  time.Time `json:"updatedAt"`
		PrevExit   string    `json:"prevExit"`
		PrevHolder string    `json:"prevHolderID"`
		StateSize  int       `json:"stateSize"`
		State      []byte    `json:"state,omitempty"`
	}{
		info.WorkID, info.HolderID, info.FencingToken, info.Live, info.Exit.String(),
		info.ExpiresAt.UTC(), info.AcquiredAt.UTC(), info.UpdatedAt.UTC(),
		info.PrevExit.String(), info.PrevHolderID, info.StateSize, info.State,
	})
}

func (lines) close() error { return nil }
