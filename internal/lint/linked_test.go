package lint

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// permissive are the licences that ask for no more than to be named.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0"}

// TestLinked compares what the program links, with cgo and without, with linkedModules.
func TestLinked(t *testing.T) {
	linked := map[string]bool{}
	for _, cgo := range []string{"0", "1"} {
		for _, module := range listDeps(t, cgo, "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/greenroom") {
			linked[module] = true
		}
	}
	previous := ""
	for _, m := range linkedModules {
		switch {
		case !linked[m.Module]:
			t.Errorf("%s is in LinkedModules, and the program doesn't link it", m.Module)
		case !slices.Contains(permissive, m.License):
			t.Errorf("%s has the licence %s", m.Module, m.License)
		case m.Why == "" || m.Module <= previous:
			t.Errorf("%s has no reason, or is not in its place", m.Module)
		}
		previous = m.Module
		delete(linked, m.Module)
	}
	for _, module := range slices.Sorted(maps.Keys(linked)) {
		t.Errorf("the program links %s: say in LinkedModules under which licence, and why", module)
	}
}

// TestWhoLinksItems: the package at the root, and the program of the README, link neither items, documents nor expressions,
// which are for programs that store items or documents, and are larger by some megabytes. Those link no actors.
func TestWhoLinksItems(t *testing.T) {
	tree := loadRoot(t)
	models := []string{tree.Module + "/itemstore", tree.Module + "/docstore"}
	heavy := []string{models[0], models[1], tree.Module + "/internal/filter", "github.com/google/cel-go/cel", "github.com/antlr4-go/antlr/v4"}
	program := fence.FindStringSubmatch(readPage(t, "README.md"))[2]
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", program, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	packages := []string{tree.Module}
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, name)
	}
	small := listDeps(t, "1", "{{.ImportPath}}", packages...)
	linked := listDeps(t, "1", "{{.ImportPath}}", models...)
	for _, name := range heavy {
		if slices.Contains(small, name) {
			t.Errorf("%q link %s", packages, name)
		}
		if !slices.Contains(linked, name) { // or the list says nothing
			t.Errorf("%q don't link %s", models, name)
		}
	}
	for _, name := range []string{tree.Module, tree.Module + "/vfs", tree.Module + "/actorstore"} {
		if slices.Contains(linked, name) {
			t.Errorf("%q link %s: items and documents have no actors", models, name)
		}
	}
}

// listDeps returns what the go command prints of some packages and all that they import, on Linux.
func listDeps(t *testing.T, cgo, format string, packages ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED="+cgo)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, errs.String())
	}
	return strings.Fields(string(out))
}
