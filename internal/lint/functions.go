package lint

import (
	"go/ast"
	"go/token"
	"iter"
	"slices"
)

// functions yields each function and method of p with its file, without those of tests.
func functions(p *pkg) iter.Seq2[*ast.FuncDecl, *sourceFile] {
	return func(yield func(*ast.FuncDecl, *sourceFile) bool) {
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !yield(fn, f) {
					return
				}
			}
		}
	}
}

// structNames returns the names of the struct types of p.
func structNames(p *pkg) map[string]bool {
	names := map[string]bool{}
	for _, f := range p.Files {
		for _, d := range f.AST.Decls {
			gen, ok := d.(*ast.GenDecl)
			if f.Test || !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.TypeSpec)
				if _, ok := spec.Type.(*ast.StructType); ok {
					names[spec.Name.Name] = true
				}
			}
		}
	}
	return names
}

// structOf returns the type of which fn is a method in all but form, "" if it is not one: the struct
// to which its first parameter points, or the one behind a context. A function with type parameters can't be a method,
// and a constructor makes the type that it returns.
func structOf(fn *ast.FuncDecl, structs map[string]bool) string {
	if fn.Type.TypeParams != nil {
		return ""
	}
	params := paramTypes(fn.Type.Params)
	if len(params) > 0 && isSelector(params[0], "context", "Context") {
		params = params[1:]
	}
	if len(params) == 0 {
		return ""
	}
	star, ok := params[0].(*ast.StarExpr)
	if !ok || !structs[typeName(star.X)] {
		return ""
	}
	name := typeName(star.X)
	makes := func(result ast.Expr) bool {
		if star, ok := result.(*ast.StarExpr); ok {
			result = star.X
		}
		return typeName(result) == name
	}
	if slices.ContainsFunc(paramTypes(fn.Type.Results), makes) {
		return ""
	}
	return name
}

// paramTypes returns the types of parameters or results; parameters that share a type have it once.
func paramTypes(list *ast.FieldList) (types []ast.Expr) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		types = append(types, field.Type)
	}
	return types
}

// typeName returns the name of a type of the same package, "" for any other type.
func typeName(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// tableValues returns the names that p puts into a table as values: into a composite literal, an element of a
// map or a slice, or a field. The functions of a table have one form, in which a method doesn't fit.
func tableValues(p *pkg) map[string]bool {
	names := map[string]bool{}
	add := func(e ast.Expr) {
		if name := typeName(e); name != "" {
			names[name] = true
		}
	}
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						e = pair.Value
					}
					add(e)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					switch to.(type) {
					case *ast.IndexExpr, *ast.SelectorExpr:
						if len(n.Rhs) == len(n.Lhs) {
							add(n.Rhs[i])
						}
					}
				}
			}
			return true
		})
	}
	return names
}
