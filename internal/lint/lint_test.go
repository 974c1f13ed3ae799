package lint

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the rendered parts of README.md and docs/keyspace.md")

// root is the checkout, seen from this package's folder.
const root = "../.."

func loadRoot(t *testing.T) *Tree {
	t.Helper()
	tree, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestTree holds the tree against every rule.
func TestTree(t *testing.T) {
	tree := loadRoot(t)
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			for _, f := range sortFindings(rule.Check(tree)) {
				t.Errorf("%v\n\t(%s)", f, rule.Reason)
			}
		})
	}
}

// TestTreeIsSeen fails when Load finds next to nothing: then every rule would
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

// TestReadmeLayers holds the README's layer table against Layers.
func TestReadmeLayers(t *testing.T) {
	page := readPage(t, "README.md")
	want := "\n" + RenderLayers(loadRoot(t)) + "\n"
	if *update {
		text, err := Replace(page, "layers", want)
		if err != nil {
			t.Fatal(err)
		}
		writePage(t, "README.md", page, text)
		return
	}
	got, err := Between(page, "layers")
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the layer table of README.md is old: go test ./internal/lint -update\n%s", diff(got, want))
	}
}

// TestReadmeCommands keeps the commands that .ci/run takes from the README where
// it looks for them.
func TestReadmeCommands(t *testing.T) {
	page := readPage(t, "README.md")
	for _, name := range []string{"test-command", "first-command"} {
		if _, err := Command(page, name); err != nil {
			t.Error(err)
		}
	}
}

// TestKeyspacePage holds docs/keyspace.md against the tables in keys.go.
func TestKeyspacePage(t *testing.T) {
	want := RenderKeyspace(loadRoot(t))
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
