package lint

import (
	"fmt"
	"go/token"
	"path"
	"slices"
	"strings"
)

// maxUpward is the share, in percent, of the references between a package's files that may run up. One always
// may, or no two files of a small package could use each other.
const maxUpward = 10

// measureUpward counts the references that run up in each package of the root module.
//
// One file of a package refers to another when it uses a name that the other declares at its top:
// a function, a type, a method, a field, a variable or a constant. Two files make at most two
// references, one in each direction, however often they use each other's names. A reference runs up if
// the package's list of files has the other file first (listed.go). A package of few files needs no list. Without one,
// its files are in the order in which the fewest references run up, so that a package has none if its files use each
// other in no circle. Tests don't count, nor do the files of platforms other than Linux on amd64.
func measureUpward(t *tree) (ms []measured, broken []finding) {
	for _, p := range t.Packages {
		if p.Nested {
			continue
		}
		c, err := t.check(p)
		if err != nil {
			broken = append(broken, finding{p.Dir, 0, "doesn't type-check: " + err.Error()})
			continue
		}
		if len(c.files) < 2 {
			continue
		}
		refs := references(t, c)
		var order []int
		if lists := fileLists(c.files); len(lists) > 0 {
			order = lists[0].order(c.files)
		} else {
			order = refs.order()
		}
		ups, total := refs.ups(order), refs.total()
		ms = append(ms, measured{
			name:   p.Dir,
			place:  finding{Path: p.Dir},
			counts: []int{len(ups)},
			over:   len(ups) > 1 && len(ups)*100 > total*maxUpward,
			says:   fmt.Sprintf("%d of %d references between files run up", len(ups), total),
			more:   upwardNames(c.files, ups),
		})
	}
	return ms, broken
}

// upwardNames lists some references, as candidates to turn around.
func upwardNames(files []*sourceFile, ups [][2]int) string {
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

// references says which of a checked package's files refers to which.
func references(t *tree, c *checked) refs {
	number := map[string]int{}
	for i, f := range c.files {
		number[f.Path] = i
	}
	file := func(pos token.Pos) int { return number[t.fset.File(pos).Name()] }
	r := make(refs, len(c.files))
	for i := range r {
		r[i] = make([]bool, len(c.files))
	}
	// What is declared in a function is declared in the file that uses it.
	for id, obj := range c.uses {
		if obj.Pkg() != c.pkg {
			continue
		}
		if a, b := file(id.Pos()), file(obj.Pos()); a != b {
			r[a][b] = true
		}
	}
	return r
}
