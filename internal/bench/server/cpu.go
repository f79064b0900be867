//go:build linux

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is how many of its clock ticks Linux counts a second for programs
// (USER_HZ; proc(5), /proc/pid/stat).
const ticks = 100

// cpu returns the seconds that a process and its children have run, those that
// have ended included.
func (p *process) cpu() (float64, error) {
	root := strconv.Itoa(p.cmd.Process.Pid)
	before, _, err := spent(root, true)
	for err == nil {
		var children, after uint64
		if children, err = p.children(); err != nil {
			break
		}
		if after, _, err = spent(root, true); err == nil && after == before {
			return float64(after+children) / ticks, nil
		}
		// A child may have ended meanwhile, and be counted twice or not at all.
		before = after
	}
	return 0, err
}

// children returns the ticks of the children that have not ended, or have not been
// waited for.
func (p *process) children() (total uint64, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, stat := range stats {
		pid := filepath.Base(filepath.Dir(stat))
		if n, parent, err := spent(pid, false); err == nil && parent == p.cmd.Process.Pid {
			total += n
		}
	}
	return total, nil
}

// spent returns the ticks of a process and who its parent is; with ended also
// those of children that have ended.
func spent(pid string, ended bool) (total uint64, parent int, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return 0, 0, err
	}
	// The name, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest) // from the third field on
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/proc/%s/stat: %q", pid, text)
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, err
	}
	last := 13 // utime, stime
	if ended {
		last = 15 // cutime, cstime
	}
	for _, field := range fields[11:last] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		total += n
	}
	return total, parent, nil
}
