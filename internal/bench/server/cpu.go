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
	root := p.cmd.Process.Pid
	total, _, err := spent(strconv.Itoa(root), true)
	if err != nil {
		return 0, err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, stat := range stats {
		pid := filepath.Base(filepath.Dir(stat))
		if n, parent, err := spent(pid, false); err == nil && parent == root {
			total += n
		}
	}
	return float64(total) / ticks, nil
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
