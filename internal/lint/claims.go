package lint

import (
	"go/ast"
	"regexp"
)

// claim is a test that a page names as the one that holds something: its package's
// folder, a dot, its name, in backquotes.
var claim = regexp.MustCompile("`([a-z0-9/_]+)\\.((?:Test|Fuzz|Example)[A-Za-z0-9_]*)`")

// checkClaims wants every test that a Markdown page names to be there.
func checkClaims(t *tree) []finding {
	tests := testNames(t)
	var fs []finding
	for f, text := range t.markdown() {
		for _, m := range claim.FindAllStringSubmatch(text, -1) {
			if name := m[1] + "." + m[2]; !tests[name] {
				f.Text = "names the test " + name + ", which isn't there"
				fs = append(fs, f)
			}
		}
	}
	return fs
}

// testNames returns the names of all tests, fuzz targets and examples: their package's folder, a dot, their name.
func testNames(t *tree) map[string]bool {
	tests := map[string]bool{}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					tests[folderName(p.Dir)+"."+fn.Name.Name] = true
				}
			}
		}
	}
	return tests
}
