// Command tally runs the tests of every module of the repository and says how
// many there were.
//
//	go run ./internal/tally [flags of go test]
//	go run ./internal/tally -modules
//	go run ./internal/tally -matrix file
//
// It goes through every go.mod below the current directory whose module has Go
// files, all of them at once. What fails is shown as it comes; at the end stands a
// line for each module, and last the total. It fails on any test that failed, and on
// any that was skipped or is pending, and on a module that ran none, so that nothing
// is left out in silence. With -modules it only lists where the modules are.
//
// With -matrix it runs PostgreSQL's specs alone, on each version of the server,
// with each version of Go and through each driver, and writes into file what they
// came to.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// module is what one go.mod came to.
type module struct {
	dir     string
	count   count
	elapsed time.Duration
}

func run(flags []string) error {
	if len(flags) == 2 && flags[0] == "-matrix" {
		return matrix(flags[1])
	}
	dirs, err := modules(".")
	if err != nil {
		return err
	}
	if slices.Equal(flags, []string{"-modules"}) {
		fmt.Println(strings.Join(dirs, "\n"))
		return nil
	}
	// At once: most specs wait for servers and clocks.
	var (
		all     sync.WaitGroup
		results = make([]module, len(dirs))
		errs    = make([]error, len(dirs))
		out     = &shared{w: os.Stdout}
		total   count
	)
	for i, dir := range dirs {
		all.Go(func() {
			start := time.Now()
			c, err := test(dir, flags, out)
			results[i], errs[i] = module{dir, c, time.Since(start)}, err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, m := range results {
		total = total.plus(m.count)
	}
	fmt.Printf("\n%-32s %8s %8s %8s\n", "module", "specs", "skipped", "seconds")
	for _, m := range results {
		fmt.Printf("%-32s %8d %8d %8.1f\n", m.dir, m.count.ran(), m.count.skipped, m.elapsed.Seconds())
	}
	fmt.Printf("%d passed, %d failed\n", total.passed, total.failed)
	return verdict(results)
}

func verdict(results []module) error {
	var errs []error
	for _, m := range results {
		if m.count.failed > 0 {
			errs = append(errs, fmt.Errorf("%s: %d failed", m.dir, m.count.failed))
		}
		if m.count.skipped > 0 {
			errs = append(errs, fmt.Errorf("%s: %d skipped or pending", m.dir, m.count.skipped))
		}
		if m.count.ran() == 0 {
			errs = append(errs, fmt.Errorf("%s: ran nothing", m.dir))
		}
	}
	return errors.Join(errs...)
}

// test runs the tests of the module in dir and shows what read does.
func test(dir string, flags []string, shown io.Writer) (count, error) {
	args := append([]string{"test", "-json"}, flags...)
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return count{}, err
	}
	if err := cmd.Start(); err != nil {
		return count{}, err
	}
	c, err := read(bufio.NewReader(out), shown)
	if err != nil {
		return c, fmt.Errorf("%s: %w", dir, errors.Join(err, cmd.Wait()))
	}
	// The verdict is in the events, but for a go command that got nowhere.
	if err := cmd.Wait(); err != nil && c.failed == 0 {
		return c, fmt.Errorf("%s: go test: %w", dir, err)
	}
	return c, nil
}

// shared is a writer for several at once.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// modules lists the directories under root that hold a go.mod and, outside
// nested modules, Go files. A module of pinned tools alone has none.
func modules(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if d.Name() != "go.mod" {
			return nil
		}
		has, err := hasGo(filepath.Dir(path))
		if has {
			dirs = append(dirs, filepath.Dir(path))
		}
		return err
	})
	return dirs, err
}

func hasGo(dir string) (found bool, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != dir {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir
			}
		}
		if filepath.Ext(path) == ".go" {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}
