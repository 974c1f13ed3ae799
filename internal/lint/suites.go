package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// testkitDir is the package that says which form of a suite a run asks for.
const testkitDir = "internal/testkit"

// suitesPage has the table of the suites that have more than one form.
const suitesPage = "docs/testing.md"

// suiteRow is a line of that table: a test in backquotes in its first column.
var suiteRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/_]+\\.[A-Za-z0-9_]+)` \\|")

// checkSuites wants every test whose size depends on the form of the run in the table of suitesPage,
// and nothing else there. Only internal/testkit looks at -short and at the variable, in any module.
func checkSuites(t *tree) []finding {
	var fs []finding
	found := map[string]finding{}
	for _, p := range t.Packages {
		if p.Dir == testkitDir || outside[p.Dir] != "" {
			continue
		}
		for _, f := range p.Files {
			fs = append(fs, asksItself(t, f)...)
		}
		if p.Nested {
			continue // the table has the suites of the root module
		}
		for name, at := range suitesOf(t, p) {
			if name == "" {
				at.Text = "a method asks for the form of a suite: let the test ask, and tell it"
				fs = append(fs, at)
				continue
			}
			found[folderName(p.Dir)+"."+name] = at
		}
	}
	text, _ := t.text(suitesPage)
	table, err := between(text, "suites")
	if err != nil {
		return append(fs, finding{suitesPage, 0, err.Error()})
	}
	listed := map[string]bool{}
	for _, m := range suiteRow.FindAllStringSubmatch(table, -1) {
		if listed[m[1]] = true; found[m[1]] == (finding{}) {
			fs = append(fs, finding{suitesPage, 0, "lists the suite " + m[1] + ", which has one form only"})
		}
	}
	for name, at := range found {
		if !listed[name] {
			at.Text = name + " has several forms, and is not in the table of " + suitesPage
			fs = append(fs, at)
		}
	}
	return fs
}

// asksItself reports calls of testing.Short, and the variable's name.
func asksItself(t *tree, f *sourceFile) (fs []finding) {
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if isCall(n, "testing", "Short") {
				fs = append(fs, t.at(n.Pos(), "asks testing.Short: ask %s", testkitDir))
			}
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && strings.HasPrefix(s, "GREENROOM_LONG") {
				fs = append(fs, t.at(n.Pos(), "asks the environment for the form of a suite: ask %s", testkitDir))
			}
		}
		return true
	})
	return fs
}

// isCall reports whether s is pkg.name for one of the names.
func isCall(s *ast.SelectorExpr, pkg string, names ...string) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(names, s.Sel.Name)
}

// suitesOf returns the tests of a package whose size depends on the form: those that ask, and those that
// use, by its name, a function that asks. A method that asks is reported under the name "".
func suitesOf(t *tree, p *pkg) map[string]finding {
	asks := map[string]finding{}
	uses := map[string][]string{} // a name, and the functions that use it
	tests := map[string]bool{}
	for _, f := range p.Files {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				name = "" // which no identifier names
			}
			tests[name] = fn.Recv == nil && (f.Test && isTest(name) || !f.Test && strings.HasPrefix(name, "test"))
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if isCall(n, "testkit", "Short", "Long", "Pick", "OnlyLong") {
						asks[name] = t.at(fn.Pos(), "")
					}
				case *ast.IfStmt:
					if asksRace(n.Cond) && !(slices.Contains(fn.Body.List, ast.Stmt(n)) && onlySkips(n)) {
						asks[name] = t.at(fn.Pos(), "")
					}
				case *ast.Ident:
					uses[n.Name] = append(uses[n.Name], name)
				}
				return true
			})
		}
	}
	todo := make([]string, 0, len(asks))
	for name := range asks {
		todo = append(todo, name)
	}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if tests[name] || name == "" {
			continue // a test that another one runs is listed by itself
		}
		for _, user := range uses[name] {
			if _, known := asks[user]; !known {
				asks[user] = asks[name]
				todo = append(todo, user)
			}
		}
	}
	for name := range asks {
		if !tests[name] && name != "" {
			delete(asks, name)
		}
	}
	return asks
}

// asksRace reports whether a condition holds under the race detector only: it has testkit.Race in it, not denied.
func asksRace(cond ast.Expr) bool {
	found := false
	ast.Inspect(cond, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			return n.Op != token.NOT
		case *ast.SelectorExpr:
			found = found || isCall(n, "testkit", "Race")
		}
		return true
	})
	return found
}

// onlySkips reports whether the race detector alone makes a test skip: what that changes, it can't measure. Such a test has
// no other form.
func onlySkips(s *ast.IfStmt) bool {
	if _, alone := s.Cond.(*ast.SelectorExpr); !alone || len(s.Body.List) != 1 {
		return false
	}
	e, ok := s.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	return ok && strings.HasPrefix(fn.Sel.Name, "Skip")
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Benchmark") || strings.HasPrefix(name, "Example")
}
