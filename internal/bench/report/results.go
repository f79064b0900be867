//go:build linux

// Package report keeps what was measured, and writes it for people: tables and
// plots.
package report

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/aetomala/worklease/internal/bench/measure"
	"github.com/aetomala/worklease/internal/bench/ours"
)

// Results are all that was measured so far. Each part is replaced by itself.
type Results struct {
	Compared *Compared `json:",omitempty"`
	Rows     *Rows     `json:",omitempty"`
	Hour     *Hour     `json:",omitempty"`
}

// Compared is what the run that compares came to.
type Compared struct {
	About   About
	Samples measure.Samples
	Held    []Holding
}

// Holding is a number of leases that one process held.
type Holding struct {
	Leases  int
	Batched bool
	Rounds  []ours.Held
}

// Rows is how operations fared on tables of different sizes.
type Rows struct {
	About   About
	Samples measure.Samples
}

// Hour is how large the table became of leases that were held.
type Hour struct {
	About       About
	Leases      int
	Length      time.Duration
	Minute, End ours.Sizes
}

// About says where and how a run was made.
type About struct {
	Date     string
	Command  string
	Rounds   int
	Length   time.Duration // of a turn
	Took     time.Duration
	Machine  string
	Kernel   string
	Versions []Version
}

// Version is that of something measured.
type Version struct{ Name, Version string }

// Load reads results, of which there may be none yet.
func Load(file string) (r Results, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// Save writes results.
func (r Results) Save(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
