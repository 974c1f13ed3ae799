// Command size counts how much there is in a tree of Go, so that two versions of it can be compared:
//
//	go run ./internal/lint/size [FOLDER]
//
// It prints a line for each package and one for all, of what is not a test, not generated and not below
// testdata, with these columns:
//
//	files     of Go
//	lines     of them that are not blank
//	comment   lines with a comment, in percent of those
//	stmts     statements without blocks and labels: an if with one statement, and one in its else, is three
//	decls     functions and methods, types, and lines of constants and variables, at the top of a file
//	exported  exported names at the top of a file, and the exported methods of exported types, where a program
//	          can import them. Fields and the methods of interfaces are not counted
//
// The packages of nested modules count, too.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	sizes, err := measure(os.DirFS(dir))
	if err == nil {
		err = print(os.Stdout, sizes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// A size is how much there is in a package, or in all.
type size struct {
	files, lines, comments, stmts, decls, exported int
}

func (s *size) add(o size) {
	s.files += o.files
	s.lines += o.lines
	s.comments += o.comments
	s.stmts += o.stmts
	s.decls += o.decls
	s.exported += o.exported
}

// measure returns the sizes of the packages of fsys by their folders.
func measure(fsys fs.FS) (map[string]size, error) {
	sizes := map[string]size{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		one, err := measureFile(name, data)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		all := sizes[dir]
		all.add(one)
		sizes[dir] = all
		return nil
	})
	return sizes, err
}

func measureFile(name string, data []byte) (s size, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return s, err
	}
	s.files = 1
	for line := range bytes.Lines(data) {
		if len(bytes.TrimSpace(line)) > 0 {
			s.lines++
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			s.comments += fset.Position(c.End()).Line - fset.Position(c.Pos()).Line + 1
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.BlockStmt, *ast.LabeledStmt, *ast.EmptyStmt:
		case ast.Stmt:
			s.stmts++
		}
		return true
	})
	for _, d := range file.Decls {
		decls, names := count(d)
		s.decls += decls
		if file.Name.Name != "main" {
			s.exported += names
		}
	}
	return s, nil
}

// count returns how many declarations d is, and how many exported names it has.
func count(d ast.Decl) (decls, exported int) {
	gen, ok := d.(*ast.GenDecl)
	if !ok {
		fn := d.(*ast.FuncDecl)
		if fn.Name.IsExported() && (fn.Recv == nil || ast.IsExported(receiver(fn.Recv.List[0].Type))) {
			return 1, 1
		}
		return 1, 0
	}
	for _, spec := range gen.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			decls++
			if spec.Name.IsExported() {
				exported++
			}
		case *ast.ValueSpec:
			decls++
			for _, name := range spec.Names {
				if name.IsExported() {
					exported++
				}
			}
		}
	}
	return decls, exported
}

// receiver returns the name of the type that a method's receiver has.
func receiver(expr ast.Expr) string {
	switch x := expr.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// print writes the sizes in the order of the folders, and their sum.
func print(w io.Writer, sizes map[string]size) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "files\tlines\tcomment\tstmts\tdecls\texported\t  package")
	var all size
	line := func(s size, name string) {
		comment := s.comments * 1000 / max(s.lines, 1)
		fmt.Fprintf(tab, "%d\t%d\t%d.%d\t%d\t%d\t%d\t  %s\n",
			s.files, s.lines, comment/10, comment%10, s.stmts, s.decls, s.exported, name)
	}
	for _, dir := range slices.Sorted(maps.Keys(sizes)) {
		all.add(sizes[dir])
		line(sizes[dir], dir)
	}
	line(all, "all")
	return tab.Flush()
}
