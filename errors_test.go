package greenroom_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// sentinels returns the exported errors that a file declares, with whether each has a comment.
func sentinels(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	must(t, err)
	all := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
			name := v.Names[0].Name
			all[name] = v.Doc != nil && strings.HasPrefix(v.Doc.Text(), name+": ")
		}
		return true
	})
	return all
}

// TestErrorKinds: every kind of error is exported, by its name, with what to do about it.
func TestErrorKinds(t *testing.T) {
	kinds, exported := sentinels(t, "internal/errkind/errkind.go"), sentinels(t, "errors.go")
	if len(kinds) != 15 {
		t.Errorf("there are %d kinds", len(kinds))
	}
	for name := range kinds {
		if !exported[name] {
			t.Errorf("%s is not exported, or not documented", name)
		}
	}
	src, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	must(t, err)
	ast.Inspect(src, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Values[0].(*ast.SelectorExpr); ok && of.Sel.Name != v.Names[0].Name {
			t.Errorf("%s is %s", v.Names[0].Name, of.Sel.Name)
		}
		return true
	})
	for name := range exported {
		if _, ok := kinds[name]; !ok && name != "ErrNested" {
			t.Errorf("%s is no kind", name)
		}
	}
}
