package lint

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// maxLines is the length that no file exceeds; generated ones may.
const maxLines = 600

// checkInit refuses func init outside programs.
func checkInit(t *tree) []finding {
	return t.eachFile(func(_ *pkg, f *sourceFile) []finding {
		var fs []finding
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name == "init" && f.AST.Name.Name != "main" {
				fs = append(fs, t.at(fn.Pos(), "func init in a package"))
			}
		}
		return fs
	})
}

// checkPackageDoc wants "Package x …" (or "Command x …") in one file of each
// package; with several, godoc shows them run together.
func checkPackageDoc(t *tree) []finding {
	var fs []finding
	for _, p := range t.Packages {
		var docs []*sourceFile
		name := packageName(p)
		for _, f := range p.Files {
			if f.AST.Doc != nil && f.AST.Name.Name == name {
				docs = append(docs, f)
			}
		}
		switch {
		case len(docs) == 0:
			fs = append(fs, finding{p.Dir, 0, "package " + name + " has no package comment"})
		case len(docs) > 1:
			fs = append(fs, t.at(docs[1].AST.Package, "second package comment, the first is in %s", docs[0].Path))
		case !startsPackageDoc(docs[0].AST.Doc.Text(), name):
			fs = append(fs, t.at(docs[0].AST.Package, "package comment doesn't start with %q", "Package "+name))
		}
	}
	return fs
}

// startsPackageDoc knows that a program is called by its command's name, which
// is its folder's and not its package's.
func startsPackageDoc(doc, name string) bool {
	if name == "main" {
		return strings.HasPrefix(doc, "Command ")
	}
	rest, ok := strings.CutPrefix(doc, "Package "+name)
	return ok && rest != "" && (rest[0] == ' ' || rest[0] == '\n')
}

// checkExportedDoc wants a comment on every exported declaration of a package,
// methods of exported types among them.
func checkExportedDoc(t *tree) []finding {
	return t.eachFile(func(_ *pkg, f *sourceFile) []finding {
		if f.Test || f.AST.Name.Name == "main" {
			return nil
		}
		var fs []finding
		for _, d := range f.AST.Decls {
			for _, name := range undocumented(d) {
				fs = append(fs, t.at(name.Pos(), "exported %s has no doc comment", name.Name))
			}
		}
		return fs
	})
}

// undocumented returns the exported names that d declares without a comment.
func undocumented(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv))) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(d, spec)...)
		}
		return names
	}
	return nil
}

// undocumentedSpec takes the comment of a group for its constants and
// variables, which often mean something together only; a type explains itself.
func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && spec.Doc == nil && (d.Doc == nil || d.Lparen != token.NoPos) {
			return []*ast.Ident{spec.Name}
		}
	case *ast.ValueSpec:
		if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			return slices.DeleteFunc(slices.Clone(spec.Names), func(n *ast.Ident) bool { return !n.IsExported() })
		}
	}
	return nil
}

// checkHidden refuses an exported alias whose type is declared in an internal package, or made of such a type.
func checkHidden(t *tree) []finding {
	return t.eachFile(func(p *pkg, f *sourceFile) []finding {
		if f.Test || f.AST.Name.Name == "main" || internalDir(p.Dir) {
			return nil
		}
		var fs []finding
		ast.Inspect(f.AST, func(n ast.Node) bool {
			alias, ok := n.(*ast.TypeSpec)
			if !ok || !alias.Assign.IsValid() || !alias.Name.IsExported() {
				return true
			}
			ast.Inspect(alias.Type, func(n ast.Node) bool {
				if of, ok := n.(*ast.SelectorExpr); ok && internalDir(t.imported(f, of.X)) {
					fs = append(fs, t.at(alias.Pos(), "exported %s is an alias of a type of %s: declare it here", alias.Name.Name, t.imported(f, of.X)))
				}
				return true
			})
			return false
		})
		return fs
	})
}

// internalDir reports whether a folder of the root module is one that only the module itself can import.
func internalDir(dir string) bool { return slices.Contains(strings.Split(dir, "/"), "internal") }

// receiver returns the name of a method's type, without pointer and parameters.
func receiver(recv *ast.FieldList) string {
	expr := recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func checkLength(t *tree) []finding {
	return t.eachFile(func(_ *pkg, f *sourceFile) []finding {
		if f.Lines <= maxLines || ast.IsGenerated(f.AST) {
			return nil
		}
		return []finding{{f.Path, f.Lines, "more than 600 lines"}}
	})
}

// checkSleep refuses time.Sleep in tests, also in a synctest bubble, where a
// timer and a channel say what is waited for.
func checkSleep(t *tree) []finding {
	return t.eachFile(func(_ *pkg, f *sourceFile) []finding {
		name := importName(f.AST, "time")
		if !f.Test || name == "" {
			return nil
		}
		var fs []finding
		bubble := path.Base(importName(f.AST, "testing/synctest")) // "." without it
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isSelector(call.Fun, bubble, "Test") {
				return false // in there the time is made up
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
				fs = append(fs, t.at(sel.Pos(), "time.Sleep in a test: wait for what happens, or inject the clock"))
			}
			return true
		})
		return fs
	})
}

// isSelector says whether e is pkg.name.
func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// importName returns the name under which f knows the standard package imp, ""
// when it doesn't import it.
func importName(f *ast.File, imp string) string {
	for _, spec := range f.Imports {
		switch {
		case importPath(spec) != imp:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return imp
		}
	}
	return ""
}
