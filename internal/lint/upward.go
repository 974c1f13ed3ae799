package lint

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/token"
	"go/types"
	"io"
	"path"
	"slices"
	"strings"
)

// maxUpward is the share, in percent, of the references between a package's files that may run up. One always
// may, or no two files of a small package could use each other.
const maxUpward = 15

// measureUpward counts the references that run up in each package of the root module.
//
// One file of a package refers to another when it uses a name that the other declares at its top:
// a function, a type, a method, a field, a variable or a constant. Two files make at most two
// references, one in each direction, however often they use each other's names. The files are then
// put on top of each other in the order in which the fewest references run from a file to one above it:
// those are the references that run up. So a package has none if its files use each other in no circle. Tests
// don't count, nor do the files of platforms other than Linux on amd64.
func measureUpward(t *Tree) (ms []measured, broken []Finding) {
	for _, p := range t.Packages {
		files := built(t, p)
		if p.Nested || len(files) < 2 {
			continue
		}
		refs, err := references(t, p.Dir, files)
		if err != nil {
			broken = append(broken, Finding{p.Dir, 0, "doesn't type-check: " + err.Error()})
			continue
		}
		order := refs.order()
		ups, total := refs.ups(order), refs.total()
		ms = append(ms, measured{
			name:   p.Dir,
			place:  Finding{Path: p.Dir},
			counts: []int{len(ups)},
			over:   len(ups) > 1 && len(ups)*100 > total*maxUpward,
			says:   fmt.Sprintf("%d of %d references between files run up", len(ups), total),
			more:   upwardNames(files, ups),
		})
	}
	return ms, broken
}

// upwardNames lists some references for the person who has to turn one around.
func upwardNames(files []*File, ups [][2]int) string {
	const most = 12
	var names []string
	for _, up := range ups {
		names = append(names, path.Base(files[up[0]].Path)+" uses "+path.Base(files[up[1]].Path))
	}
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return strings.Join(names, ", ")
}

// built returns the files of p that the go command compiles on Linux on amd64, without tests.
func built(t *Tree, p *Package) []*File {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = "linux", "amd64", true
	ctx.JoinPath = path.Join
	ctx.OpenFile = func(name string) (io.ReadCloser, error) {
		text, _ := t.text(name)
		return io.NopCloser(strings.NewReader(text)), nil
	}
	var files []*File
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

// references finds out what each name in files means. t.Importer knows the packages that they import.
func references(t *Tree, dir string, files []*File) (refs, error) {
	number := map[string]int{}
	var parsed []*ast.File
	for i, f := range files {
		number[f.Path] = i
		parsed = append(parsed, f.AST)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: t.Importer, Sizes: types.SizesFor("gc", "amd64")}
	pkg, err := conf.Check(path.Join(t.Module, dir), t.fset, parsed, info)
	if err != nil {
		return nil, err
	}
	file := func(pos token.Pos) int { return number[t.fset.File(pos).Name()] }
	r := make(refs, len(files))
	for i := range r {
		r[i] = make([]bool, len(files))
	}
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg {
			continue
		}
		if a, b := file(id.Pos()), file(obj.Pos()); a != b {
			r[a][b] = true
		}
	}
	return r, nil
}
