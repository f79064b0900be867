package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// What the matrix goes through.
var (
	servers    = []string{"14", "15", "16", "17", "18"}
	toolchains = []string{"go1.26.8", "go1.27.0"}
	drivers    = []driver{
		{"lib/pq", "backend/postgres"},
		{"pgx", "internal/pgx"},
	}
)

// driver is one of database/sql's, and the package whose specs go through it.
type driver struct{ name, dir string }

// cell is what the specs came to in one combination.
type cell struct {
	server, toolchain, driver string

	count   count
	elapsed time.Duration
}

// matrix runs PostgreSQL's specs in all combinations and writes what they came to
// into file, unless one failed or left something out.
func matrix(file string) error {
	tmp, err := os.MkdirTemp("", "worklease-matrix-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	var cells []cell
	for _, toolchain := range toolchains {
		for _, d := range drivers {
			specs := filepath.Join(tmp, toolchain+filepath.Base(d.dir))
			build := command(d.dir, toolchain, "test", "-c", "-o", specs, ".")
			build.Stdout = os.Stdout
			if err := build.Run(); err != nil {
				return fmt.Errorf("%s: go test -c: %w", d.dir, err)
			}
			for _, server := range servers {
				c, err := try(specs, toolchain, d, server)
				if err != nil {
					return fmt.Errorf("PostgreSQL %s, %s, %s: %w", server, toolchain, d.name, err)
				}
				fmt.Print(c)
				cells = append(cells, c)
			}
		}
	}

	if err := faultless(cells); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err = insert(text, cells)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, text, 0o644)
}

// try runs compiled specs on a server of one major version.
func try(specs, toolchain string, d driver, server string) (cell, error) {
	out, err := exec.Command(".ci/postgres-version", server).Output()
	if err != nil {
		return cell{}, fmt.Errorf(".ci/postgres-version: %w", err)
	}
	bin := strings.TrimSpace(string(out))
	version, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return cell{}, fmt.Errorf("postgres --version: %w", err)
	}
	c := cell{
		server:    strings.TrimSpace(strings.TrimPrefix(string(version), "postgres (PostgreSQL) ")),
		toolchain: strings.TrimPrefix(toolchain, "go"),
		driver:    d.name,
	}

	start := time.Now()
	cmd := command(d.dir, toolchain, "tool", "test2json", "-t", "-p", d.dir, specs, "-test.v=test2json", "-test.timeout=20m")
	cmd.Env = append(cmd.Env, "WORKLEASE_TEST_POSTGRES_BIN="+bin, "WORKLEASE_TEST_POSTGRES_DSN=")
	events, err := cmd.StdoutPipe()
	if err != nil {
		return c, err
	}
	if err := cmd.Start(); err != nil {
		return c, err
	}
	c.count, err = read(bufio.NewReader(events), os.Stdout)
	c.elapsed = time.Since(start)
	if ended := cmd.Wait(); ended != nil && c.count.failed == 0 {
		err = errors.Join(err, ended)
	}
	return c, err
}

// command is a go command of one version.
func command(dir, toolchain string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain)
	cmd.Stderr = os.Stderr
	return cmd
}

// faultless refuses cells in which a spec failed, was left out, or none ran.
func faultless(cells []cell) error {
	var results []module
	for _, c := range cells {
		results = append(results, module{dir: fmt.Sprintf("PostgreSQL %s, Go %s, %s", c.server, c.toolchain, c.driver), count: c.count})
	}
	return verdict(results)
}

// String is c's row of the table.
func (c cell) String() string {
	return fmt.Sprintf("| %s | %s | %s | %d | %d | %.0f |\n",
		c.server, c.toolchain, c.driver, c.count.ran(), c.count.skipped, c.elapsed.Seconds())
}

// The comments between which the table stands.
const (
	opening = "<!-- make matrix writes what follows -->\n"
	closing = "<!-- up to here -->\n"
)

// insert puts the table of cells into text.
func insert(text []byte, cells []cell) ([]byte, error) {
	before, rest, opened := strings.Cut(string(text), opening)
	_, after, closed := strings.Cut(rest, closing)
	if !opened || !closed {
		return nil, errors.New("the comments around the table are missing")
	}
	var table strings.Builder
	table.WriteString("| PostgreSQL | Go | driver | specs | skipped | seconds |\n| --- | --- | --- | ---: | ---: | ---: |\n")
	for _, c := range cells {
		table.WriteString(c.String())
	}
	return []byte(before + opening + table.String() + closing + after), nil
}
