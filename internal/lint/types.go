package lint

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/types"
	"io"
	"path"
	"slices"
	"strings"
)

// A checked is a package of the tree with the meaning of its names.
type checked struct {
	pkg   *types.Package
	files []*sourceFile // as built returns them
	uses  map[*ast.Ident]types.Object
}

// check finds out what each name in p means. It remembers the answer, and is for one goroutine at a time.
func (t *tree) check(p *pkg) (*checked, error) {
	if c := t.checked[p.Dir]; c != nil {
		return c, nil
	}
	c := &checked{files: built(t, p), uses: map[*ast.Ident]types.Object{}}
	var parsed []*ast.File
	for _, f := range c.files {
		parsed = append(parsed, f.AST)
	}
	conf := types.Config{Importer: importer{t}, Sizes: types.SizesFor("gc", "amd64")}
	var err error
	c.pkg, err = conf.Check(path.Join(t.Module, p.Dir), t.fset, parsed, &types.Info{Uses: c.uses})
	if err != nil {
		return nil, err
	}
	t.checked[p.Dir] = c
	return c, nil
}

// An importer lets the type checker find what a package imports. It has the packages of the tree from their source, and all others from t.Importer.
type importer struct{ t *tree }

// Import returns the package of an import path, checked if it is one of the tree.
func (im importer) Import(name string) (*types.Package, error) {
	dir, ok := im.t.inRoot(name)
	if !ok && im.t.Importer == nil {
		return nil, fmt.Errorf("lint: no importer for %s", name)
	} else if !ok {
		return im.t.Importer.Import(name)
	}
	i := slices.IndexFunc(im.t.Packages, func(p *pkg) bool { return p.Dir == dir })
	if i < 0 {
		return nil, fmt.Errorf("lint: no package %s", name)
	}
	c, err := im.t.check(im.t.Packages[i])
	if err != nil {
		return nil, err
	}
	return c.pkg, nil
}

// built returns the files of p that the go command compiles on Linux on amd64, without tests.
func built(t *tree, p *pkg) []*sourceFile {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = "linux", "amd64", true
	ctx.JoinPath = path.Join
	ctx.OpenFile = func(name string) (io.ReadCloser, error) {
		text, _ := t.text(name)
		return io.NopCloser(strings.NewReader(text)), nil
	}
	var files []*sourceFile
	// MatchFile looks at the name and at the build constraints.
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		if ok, err := ctx.MatchFile(p.Dir, path.Base(f.Path)); err == nil && ok {
			files = append(files, f)
		}
	}
	return files
}
