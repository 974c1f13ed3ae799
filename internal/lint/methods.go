package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// maxMethods and maxMethodFiles are what a type may have: more methods than a reader keeps in mind,
// or in more files than a reader opens, are several types in one.
const maxMethods, maxMethodFiles = 30, 3

// measureMethods counts the methods of each type, without those in tests, and the files that they are in.
func measureMethods(t *tree) (ms []measured, _ []finding) {
	for _, p := range t.Packages {
		// By the name of the type. A method that each platform has in a file of its own counts once.
		methods, files := map[string]map[string]bool{}, map[string]map[string]bool{}
		place := map[string]finding{}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv == nil {
					continue
				}
				name := receiver(fn.Recv)
				if methods[name] == nil {
					methods[name], files[name] = map[string]bool{}, map[string]bool{}
					place[name] = t.at(fn.Pos(), "")
				}
				methods[name][fn.Name.Name], files[name][f.Path] = true, true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(methods)) {
			n, in := len(methods[name]), len(files[name])
			ms = append(ms, measured{
				name:   strings.TrimPrefix(p.Dir+"."+name, ".."),
				place:  place[name],
				counts: []int{n, in},
				over:   n > maxMethods || in > maxMethodFiles,
				says:   fmt.Sprintf("%s has %d methods in %d files", name, n, in),
			})
		}
	}
	return ms, nil
}
