// Command mutants proves that the specs notice what they must: it puts one fault
// at a time into a copy of the tree and runs the specs that have to fail.
//
//	go run ./mutants -root ../.. [-only NAME]
//
// Each *.patch beside this file is a mutant. Its first line says what is wrong,
// its second names a package and a Ginkgo focus:
//
//	# Checkpoint does not look at the token.
//	# caught by: ./backend/postgres 10a:
//
// A mutant that survives or that no longer applies is a failure, and so is a
// focus that finds no spec, or one that fails without a mutant.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	root := flag.String("root", "../..", "the root of the repository")
	only := flag.String("only", "", "try only the mutants whose names contain this")
	flag.Parse()
	if err := run(*root, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(root, only string) error {
	mutants, err := load(filepath.Join(root, "internal/faults/mutants"), only)
	if err != nil {
		return err
	}
	tree, err := os.MkdirTemp("", "worklease-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tree) }()
	if err := duplicate(root, tree); err != nil {
		return err
	}

	began := time.Now()
	if err := sound(tree, mutants); err != nil {
		return err
	}
	fmt.Printf("%-30s %5.1fs\n", "without a mutant", time.Since(began).Seconds())
	var failed []error
	for _, m := range mutants {
		began := time.Now()
		how, err := m.try(tree)
		if err != nil {
			how = err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		}
		fmt.Printf("%-30s %5.1fs  %s\n", m.name, time.Since(began).Seconds(), how)
	}
	fmt.Printf("%d mutants, %d caught\n", len(mutants), len(mutants)-len(failed))
	return errors.Join(failed...)
}

// mutant is one fault.
type mutant struct {
	name, patch string
	by          catch
}

// catch is what has to fail under a mutant.
type catch struct{ pkg, focus string }

var caughtBy = regexp.MustCompile(`(?m)^# caught by: (\S+) (.+)$`)

// load reads the mutants of a directory.
func load(dir, only string) ([]mutant, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		by := caughtBy.FindSubmatch(text)
		if by == nil {
			return nil, fmt.Errorf("%s does not say what catches it", file)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		if strings.Contains(name, only) {
			mutants = append(mutants, mutant{name, file, catch{string(by[1]), string(by[2])}})
		}
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no mutants in %s", dir)
	}
	return mutants, nil
}

// duplicate copies the files of a repository, whether committed or not.
func duplicate(root, tree string) error {
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed so
		}
		if err != nil {
			return err
		}
		to := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// try puts the mutant into tree, sees that it is caught, and takes it out again.
// It returns the spec that caught it.
func (m mutant) try(tree string) (string, error) {
	if out, err := command(tree, "git", "apply", "--unidiff-zero", m.patch); err != nil {
		return "", fmt.Errorf("does not apply any more: %s", bytes.TrimSpace(out))
	}
	how, err := m.by.catches(tree)
	if out, failed := command(tree, "git", "apply", "--unidiff-zero", "-R", m.patch); failed != nil {
		return "", fmt.Errorf("cannot be taken out: %s", bytes.TrimSpace(out))
	}
	return how, err
}

// sound sees that what must catch the mutants exists and passes without them.
func sound(tree string, mutants []mutant) error {
	focus := map[string][]string{}
	for _, m := range mutants {
		focus[m.by.pkg] = append(focus[m.by.pkg], "("+m.by.focus+")")
	}
	report := filepath.Join(tree, "report.json")
	for pkg, all := range focus {
		out, err := catch{pkg, strings.Join(all, "|")}.test(tree, "-ginkgo.json-report="+report)
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %s", pkg, tail(out))
		}
		passed, err := specs(report)
		if err != nil {
			return err
		}
		for _, m := range mutants {
			by, err := regexp.Compile(m.by.focus)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			if m.by.pkg == pkg && !slices.ContainsFunc(passed, by.MatchString) {
				return fmt.Errorf("%s: no spec in %s matches %q", m.name, pkg, m.by.focus)
			}
		}
	}
	return nil
}

// specs returns the names of the specs that passed, as a focus sees them.
func specs(report string) ([]string, error) {
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
		}
	}
	if err := json.Unmarshal(text, &suites); err != nil {
		return nil, err
	}
	var names []string
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if spec.LeafNodeType == "It" && spec.State == "passed" {
				names = append(names, strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " "))
			}
		}
	}
	return names, nil
}

var failed = regexp.MustCompile(`(?m)^\s*\[(?:FAIL|PANICKED!|TIMEDOUT)\] (.+)$`)

// catches sees that a spec fails, which it returns.
func (c catch) catches(tree string) (string, error) {
	out, err := c.test(tree)
	if err == nil {
		return "", errors.New("SURVIVED")
	}
	if bytes.Contains(out, []byte("[build failed]")) {
		return "", fmt.Errorf("does not compile: %s", tail(out))
	}
	if spec := failed.FindSubmatch(out); spec != nil {
		return "caught by " + string(spec[1]), nil
	}
	return "", fmt.Errorf("no spec failed, but the run did: %s", tail(out))
}

func (c catch) test(tree string, more ...string) ([]byte, error) {
	args := []string{"go", "test", "-count=1", c.pkg, "-ginkgo.no-color", "-ginkgo.fail-fast", "-ginkgo.focus=" + c.focus}
	return command(tree, append(args, more...)...)
}

func command(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// tail is the end of an output, for an error.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
