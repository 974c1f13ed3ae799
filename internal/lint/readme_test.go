package lint

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goBlock is a fenced block of Go on a Markdown page.
var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// TestReadmeCompiles compiles the README's Go, as the body of a function with a
// context: what a reader copies must build. It does not run; the examples of the
// packages do.
func TestReadmeCompiles(t *testing.T) {
	tree := loadRoot(t)
	blocks := goBlock.FindAllStringSubmatch(readPage(t, "README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no block of Go")
	}
	for i, block := range blocks {
		source, err := snippet(tree, block[1])
		if err != nil {
			t.Errorf("block %d: %v", i+1, err)
			continue
		}
		if out := compile(t, source); out != "" {
			t.Errorf("block %d of Go in README.md doesn't compile:\n%s\n%s", i+1, out, source)
		}
	}
}

// TestSnippetFails: a mistake in a block is seen.
func TestSnippetFails(t *testing.T) {
	tree := loadRoot(t)
	if _, err := snippet(tree, "if {"); err == nil {
		t.Error("a block that is no Go made a file")
	}
	source, err := snippet(tree, "return kv.ErrNoSuchThing\n")
	if err != nil {
		t.Fatal(err)
	}
	if out := compile(t, source); !strings.Contains(out, "ErrNoSuchThing") {
		t.Errorf("compiled what can't be, saying %q", out)
	}
}

// snippet makes a file of a function's body, with imports of the packages of the
// tree that it names. A line of the body is one line further down.
func snippet(t *tree, body string) (string, error) {
	const head, end = "package snippet; ", "return nil }\n"
	function := "func _(ctx context.Context) error {"
	file, err := parser.ParseFile(token.NewFileSet(), "snippet.go", head+function+"\n"+body+end, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	imports := []string{"context"}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		for _, p := range t.Packages {
			if ok && !p.Nested && path.Base(p.Dir) == id.Name && !strings.Contains(p.Dir, "internal/") {
				imports = append(imports, t.Module+"/"+p.Dir)
			}
		}
		return true
	})
	slices.Sort(imports)
	var b strings.Builder
	for _, name := range slices.Compact(imports) {
		fmt.Fprintf(&b, "import %q; ", name)
	}
	return head + b.String() + function + "\n" + body + end, nil
}

// compile returns what the compiler has to say about a file in the module, which
// the file only seems to be in.
func compile(t *testing.T, source string) string {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "snippet.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(abs, "snippet", "snippet.go"): file},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{file: []byte(source), overlay: replace} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./snippet")
	cmd.Dir = abs
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}
