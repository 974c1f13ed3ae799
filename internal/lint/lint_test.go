package lint

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	gcimporter "go/importer"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the rendered parts of the pages, and lower what is excepted")

// root is the checkout, seen from this package's folder.
const root = "../.."

// loadOnce parses the checkout for all tests, which only read it.
var loadOnce = sync.OnceValues(func() (*tree, error) {
	tree, err := load(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	exports, err := exportData(tree)
	if err != nil {
		return nil, err
	}
	tree.Importer = gcimporter.ForCompiler(tree.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return tree, nil
})

func loadRoot(t *testing.T) *tree {
	t.Helper()
	tree, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// exportData returns the files in which the compiler has written down what each package outside of the tree
// exports that the tree imports, by import path.
func exportData(tree *tree) (map[string]string, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	imports := map[string]bool{}
	tree.eachImport(func(p *pkg, f *sourceFile, spec *ast.ImportSpec) []finding {
		if _, own := tree.local(spec); !own && !p.Nested && !f.Test {
			imports[importPath(spec)] = true
		}
		return nil
	})
	cmd := exec.Command("go", slices.AppendSeq(args, maps.Keys(imports))...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, errs.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	return files, nil
}

// TestTree holds the tree against every rule.
func TestTree(t *testing.T) {
	tree := loadRoot(t)
	if *update {
		text, err := renderExceptions(tree)
		if err != nil {
			t.Fatal(err)
		}
		writePage(t, exceptionsPage, readPage(t, exceptionsPage), text)
		return
	}
	for _, rule := range rules() {
		t.Run(rule.Name, func(t *testing.T) {
			for _, f := range sortFindings(rule.Check(tree)) {
				t.Errorf("%v\n\t(%s)", f, rule.Reason)
			}
		})
	}
}

// TestTreeIsSeen fails when load finds next to nothing: then every rule would
// hold.
func TestTreeIsSeen(t *testing.T) {
	tree := loadRoot(t)
	for _, dir := range []string{"kv", "internal/lint"} {
		if !tree.has(dir) {
			t.Errorf("package %s was not loaded", dir)
		}
	}
	for _, name := range []string{"go.mod", ".ci/run", ".github/workflows/ci.yml", "internal/devtools/go.mod"} {
		if _, ok := tree.text(name); !ok {
			t.Errorf("file %s was not loaded", name)
		}
	}
}

// TestDesignLayers holds the layer table of docs/design.md against layers.
func TestDesignLayers(t *testing.T) {
	renderedPart(t, "docs/design.md", "layers", renderLayers(loadRoot(t)))
}

// renderedPart holds the part of a page between two markers against what is rendered for it, or writes it.
func renderedPart(t *testing.T, name, marker, want string) {
	t.Helper()
	page := readPage(t, name)
	want = "\n" + want + "\n"
	if *update {
		text, err := replace(page, marker, want)
		if err != nil {
			t.Fatal(err)
		}
		writePage(t, name, page, text)
		return
	}
	got, err := between(page, marker)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the part %s of %s is old: go test ./internal/lint -update\n%s", marker, name, diff(got, want))
	}
}

// TestReadmeCommands keeps the commands that .ci/run takes from the README where
// it looks for them.
func TestReadmeCommands(t *testing.T) {
	page := readPage(t, "README.md")
	for _, name := range []string{"test-command", "first-command"} {
		if _, err := command(page, name); err != nil {
			t.Error(err)
		}
	}
}

// TestKeyspacePage holds docs/keyspace.md against the tables in keys.go.
func TestKeyspacePage(t *testing.T) {
	want := renderKeyspace(loadRoot(t))
	name := "docs/keyspace.md"
	if *update {
		writePage(t, name, "", want)
		return
	}
	if got := readPage(t, name); got != want {
		t.Errorf("%s is old: go test ./internal/lint -update\n%s", name, diff(got, want))
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is missing", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// writePage leaves the file alone when nothing changed.
func writePage(t *testing.T, name, old, text string) {
	t.Helper()
	if old == text {
		return
	}
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// diff prints the lines that only one of the two texts has.
func diff(got, want string) string {
	var b strings.Builder
	only := func(sign string, a, other string) {
		have := map[string]bool{}
		for line := range strings.Lines(other) {
			have[line] = true
		}
		for line := range strings.Lines(a) {
			if !have[line] {
				b.WriteString(sign + line)
			}
		}
	}
	only("-", got, want)
	only("+", want, got)
	return b.String()
}
