// Command splits finds the tests in which a commit has to be split where an atomic commit of the engine holds one
// sub-batch, and writes or compares the list of them:
//
//	go run ./internal/lint/splits > .ci/journal.txt
//	go run ./internal/lint/splits -compare .ci/journal.txt
//
// It runs each test of the packages that stand on actorstore by itself, but for those that the list has, in its short form, with that limit and, if a commit is split, without, and
// asks the coverage of the packages batch and workflow how often a statement ran that only a commit that is too large
// leads to. A test that sets the limit itself, and does the same with and without, is not in the list. It must run at the root
// of the module.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// header begins the list.
const header = `# The tests in which a commit has to be split where an atomic commit holds one sub-batch, by package.
# Written by: go run ./internal/lint/splits > .ci/journal.txt
`

// packages are those with stores whose limits the environment may lower.
var packages = []string{
	".", "./actorstore", "./conn", "./host", "./host/wasm", "./persist", "./queue", "./traces", "./vfs", "./workflow", "./workflow/internal/history",
}

// marks are functions whose last statements run when a commit is too large, and only then.
var marks = []struct{ file, function string }{
	{"batch/limits.go", "CheckSubs"},
	{"workflow/backlog.go", "storeNames"},
}

func main() {
	compare := flag.String("compare", "", "compare with the list in `FILE`, and write nothing")
	flag.Parse()
	if err := run(*compare); err != nil {
		fmt.Fprintln(os.Stderr, "splits:", err)
		os.Exit(1)
	}
}

func run(compare string) error {
	dir, err := os.MkdirTemp("", "splits")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	marked, err := markedLines()
	if err != nil {
		return err
	}
	if compare == "" {
		fmt.Print(header)
	}
	var old []string
	if compare != "" {
		list, err := os.ReadFile(compare)
		if err != nil {
			return err
		}
		old = strings.Split(string(list), "\n")
	}
	var lacks []error
	for _, p := range packages {
		tests, err := splitting(dir, p, marked, old)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		for _, t := range tests {
			line := p + " " + t.name
			switch {
			case compare == "" && t.splits():
				fmt.Println(line)
			case compare != "" && t.surely():
				lacks = append(lacks, fmt.Errorf("%s lacks %s", compare, line))
			}
		}
	}
	return errors.Join(lacks...)
}

// A test with how often its commits were too large, with the limit of one sub-batch and without.
type test struct {
	name          string
	with, without int
}

// splits reports whether the limit makes a difference to the test. What it does may depend on chance.
func (t test) splits() bool { return 10*t.with > 11*t.without }

// surely reports whether the limit makes a difference beyond chance.
func (t test) surely() bool { return t.with > 2*t.without }

// markedLines returns, by file, the line of the last statement of each function of marks.
func markedLines() (map[string]int, error) {
	lines := map[string]int{}
	for _, m := range marks {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, m.file, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == m.function {
				lines[m.file] = fset.Position(fn.Body.List[len(fn.Body.List)-1].Pos()).Line
			}
		}
		if lines[m.file] == 0 {
			return nil, fmt.Errorf("%s has no function %s", m.file, m.function)
		}
	}
	return lines, nil
}

// splitting returns the tests of a package with their counts, sorted by name, but for those that the list old has.
func splitting(dir, pkg string, marked map[string]int, old []string) ([]test, error) {
	binary := filepath.Join(dir, "test")
	if _, err := output(exec.Command("go", "test", "-vet=off", "-c", "-covermode=count", "-coverpkg=./batch,./workflow", "-o", binary, pkg)); err != nil {
		return nil, err
	}
	list := exec.Command(binary, "-test.list", "^Test")
	list.Dir = pkg
	names, err := output(list)
	if err != nil {
		return nil, err
	}
	var (
		tests = []test{}
		errs  []error
		mu    sync.Mutex
		wg    sync.WaitGroup
		slots = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	for _, name := range strings.Fields(names) {
		if !strings.HasPrefix(name, "Test") || strings.Contains(name, "Alloc") || slices.Contains(old, pkg+" "+name) {
			continue // the line at the end; and coverage allocates
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t := test{name: name}
			var err error
			if t.with, err = count(binary, pkg, name, "1", marked); err == nil && t.with > 0 {
				t.without, err = count(binary, pkg, name, "", marked)
			}
			mu.Lock()
			defer mu.Unlock()
			tests, errs = append(tests, t), append(errs, err)
		})
	}
	wg.Wait()
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return tests, errors.Join(errs...)
}

// count runs a test with a value of the limit, and returns how often it ran marked lines.
func count(binary, pkg, name, limit string, marked map[string]int) (int, error) {
	profile := binary + "." + name + limit
	cmd := exec.Command(binary, "-test.run", "^"+name+"$", "-test.short", "-test.coverprofile", profile)
	cmd.Dir = pkg
	cmd.Env = append(os.Environ(), "GREENROOM_ATOMIC_BATCHES="+limit)
	if _, err := output(cmd); err != nil {
		return 0, err
	}
	data, err := os.ReadFile(profile)
	if err != nil {
		return 0, err
	}
	return counted(string(data), marked)
}

// output runs cmd, and returns what it prints.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return string(out), nil
}

// counted returns how often a coverage profile says that marked lines were run. Its lines are
// FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT (https://go.dev/doc/build-cover).
func counted(profile string, marked map[string]int) (n int, err error) {
	for line := range strings.Lines(profile) {
		file, rest, ok := strings.Cut(line, ".go:")
		if !ok {
			continue
		}
		var from, to, column, statements, times int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &from, &column, &to, &column, &statements, &times); err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		for mark, at := range marked {
			if from <= at && at <= to && strings.HasSuffix(file+".go", "/"+mark) {
				n += times
			}
		}
	}
	return n, nil
}
