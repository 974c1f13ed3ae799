package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A tree is a checkout, parsed. It is read-only after load, but for what check remembers.
type tree struct {
	// Module is the import path of the module at the root.
	Module string
	// Nested holds the folders of the other modules, sorted.
	Nested []string
	// Packages holds every folder with Go files, sorted by Dir.
	Packages []*pkg
	// Texts holds every source and text file, sorted by Path.
	Texts []textFile
	// Paths holds every file and folder, whatever it is.
	Paths map[string]bool
	// Importer knows the packages outside of the tree that the tree's import, for the rules that look at
	// types. load leaves it nil, and such a rule then reports a package with such an import.
	Importer types.Importer

	fset    *token.FileSet
	checked map[string]*checked // by Dir
}

// A pkg is the Go files of one folder: the package and its tests.
type pkg struct {
	// Dir is slash-separated and relative to the root; the root itself is ".".
	Dir string
	// Nested says that the package belongs to a module below the root's.
	Nested bool
	// Files are sorted by Path.
	Files []*sourceFile
}

// A sourceFile is one Go file.
type sourceFile struct {
	// Path is slash-separated and relative to the root.
	Path string
	// Test says that the name ends in _test.go.
	Test bool
	// AST holds the comments too.
	AST *ast.File
	// Lines is the number of lines.
	Lines int
}

// A textFile is one file as it is.
type textFile struct {
	// Path is slash-separated and relative to the root.
	Path string
	// Data is the file's content.
	Data string
}

// load parses the tree at the root of fsys. Folders named testdata, and those
// whose name starts with "_" or "." (but for .ci and .github), are left out.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{Paths: map[string]bool{}, fset: token.NewFileSet(), checked: map[string]*checked{}}
	byDir := map[string]*pkg{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipDir(name):
			return fs.SkipDir
		}
		t.Paths[name] = true
		if d.IsDir() || !d.Type().IsRegular() || !isText(name) {
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		return t.add(name, data, byDir)
	})
	if err != nil {
		return nil, fmt.Errorf("lint: load: %w", err)
	}
	if t.Module == "" {
		return nil, fmt.Errorf("lint: load: no go.mod with a module line at the root")
	}
	t.finish(byDir)
	return t, nil
}

// add takes one file in.
func (t *tree) add(name string, data []byte, byDir map[string]*pkg) error {
	t.Texts = append(t.Texts, textFile{name, string(data)})
	if path.Base(name) == "go.mod" {
		if dir := path.Dir(name); dir == "." {
			t.Module = modulePath(string(data))
		} else {
			t.Nested = append(t.Nested, dir)
		}
	}
	if path.Ext(name) != ".go" {
		return nil
	}
	file, err := parser.ParseFile(t.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	p := byDir[dir]
	if p == nil {
		p = &pkg{Dir: dir}
		byDir[dir] = p
		t.Packages = append(t.Packages, p)
	}
	p.Files = append(p.Files, &sourceFile{
		Path:  name,
		Test:  strings.HasSuffix(name, "_test.go"),
		AST:   file,
		Lines: strings.Count(string(data), "\n"),
	})
	return nil
}

// finish sorts, and says which packages belong to nested modules: their go.mod
// may have been walked after them.
func (t *tree) finish(byDir map[string]*pkg) {
	slices.Sort(t.Nested)
	slices.SortFunc(t.Packages, func(a, b *pkg) int { return cmp.Compare(a.Dir, b.Dir) })
	slices.SortFunc(t.Texts, func(a, b textFile) int { return cmp.Compare(a.Path, b.Path) })
	for _, p := range byDir {
		p.Nested = slices.ContainsFunc(t.Nested, func(m string) bool { return within(p.Dir, m) })
	}
}

// names returns the names of p's files without the tests.
func (p *pkg) names() (names []string) {
	for _, f := range p.Files {
		if !f.Test {
			names = append(names, path.Base(f.Path))
		}
	}
	return names
}

// packageName returns the name that the folder's comment must explain: the
// package's, or in a folder with external tests alone theirs.
func packageName(p *pkg) string {
	name := p.Files[0].AST.Name.Name
	for _, f := range p.Files {
		if n := f.AST.Name.Name; !strings.HasSuffix(n, "_test") {
			return n
		}
	}
	return name
}

// has reports whether dir holds a package of the tree that is more than tests.
func (t *tree) has(dir string) bool {
	for _, p := range t.Packages {
		if p.Dir == dir {
			return slices.ContainsFunc(p.Files, func(f *sourceFile) bool { return !f.Test })
		}
	}
	return false
}

// text returns the content of one file.
func (t *tree) text(name string) (data string, ok bool) {
	for _, x := range t.Texts {
		if x.Path == name {
			return x.Data, true
		}
	}
	return "", false
}

// at makes a finding at a place in a parsed file.
func (t *tree) at(pos token.Pos, format string, args ...any) finding {
	p := t.fset.Position(pos)
	return finding{p.Filename, p.Line, fmt.Sprintf(format, args...)}
}

// eachFile collects what check finds in each Go file.
func (t *tree) eachFile(check func(*pkg, *sourceFile) []finding) []finding {
	var fs []finding
	for _, p := range t.Packages {
		for _, f := range p.Files {
			fs = append(fs, check(p, f)...)
		}
	}
	return fs
}

// eachImport collects what check finds in each import of each file.
func (t *tree) eachImport(check func(*pkg, *sourceFile, *ast.ImportSpec) []finding) []finding {
	var fs []finding
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, spec := range f.AST.Imports {
				fs = append(fs, check(p, f, spec)...)
			}
		}
	}
	return fs
}

// local returns the folder that spec imports when it is one of the root module.
func (t *tree) local(spec *ast.ImportSpec) (dir string, ok bool) {
	return t.inRoot(importPath(spec))
}

// inRoot returns the folder that an import path stands for when it is one of the
// root module, as local does for an import of a file.
func (t *tree) inRoot(name string) (dir string, ok bool) {
	if name == t.Module {
		return ".", true
	}
	return strings.CutPrefix(name, t.Module+"/")
}

// imported returns the folder of the root module's package that x names in f, "" if it names none.
func (t *tree) imported(f *sourceFile, x ast.Expr) string {
	id, ok := x.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, spec := range f.AST.Imports {
		dir, ok := t.local(spec)
		if ok && (spec.Name == nil && path.Base(dir) == id.Name || spec.Name != nil && spec.Name.Name == id.Name) {
			return dir
		}
	}
	return ""
}

// within reports whether an import path or folder is root or lies below it.
func within(name, root string) bool {
	return name == root || strings.HasPrefix(name, root+"/")
}

func skipDir(name string) bool {
	base := path.Base(name)
	switch {
	case name == "." || base == ".ci" || base == ".github":
		return false
	case base == "testdata" || base == "node_modules":
		return true
	}
	return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
}

// isText tells the files that people write by their names. Sums, licences and data aren't
// prose.
func isText(name string) bool {
	switch path.Base(name) {
	case "Makefile", "run", ".gitignore":
		return true
	}
	switch path.Ext(name) {
	case ".go", ".mod", ".md", ".sh", ".txt", ".yml", ".yaml":
		return true
	}
	return false
}

// modulePath returns what the module line of a go.mod says, "" without one.
func modulePath(gomod string) string {
	for line := range strings.Lines(gomod) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// importPath returns the path between the quotes; the parser has checked them.
func importPath(spec *ast.ImportSpec) string {
	s, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic("lint: import path " + spec.Path.Value + ": " + err.Error())
	}
	return s
}

// isStd tells the standard library by the go command's own rule: the first
// element of its import paths has no dot.
func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// folderName is a folder as tables and pages name it: the root is called as its package is.
func folderName(dir string) string {
	if dir == "." {
		return "greenroom"
	}
	return dir
}
