//go:build linux

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// disk is the block device that a directory lies on.
type disk struct{ stat string }

// diskOf finds the device of a directory.
func diskOf(dir string) (disk, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(dir, &s); err != nil {
		return disk{}, err
	}
	// As makedev(3) puts them together.
	major := (s.Dev>>8)&0xfff | (s.Dev>>32)&^0xfff
	minor := s.Dev&0xff | (s.Dev>>12)&^0xff
	d := disk{fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor)}
	_, err := d.flushes()
	return d, err
}

// flushes returns how many flushes the device has completed, whoever asked for
// them (Documentation/block/stat.rst of Linux, since 5.5).
func (d disk) flushes() (float64, error) {
	text, err := os.ReadFile(d.stat)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 16 {
		return 0, fmt.Errorf("%s counts no flushes", filepath.Clean(d.stat))
	}
	return strconv.ParseFloat(fields[15], 64)
}
