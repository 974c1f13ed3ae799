package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxMethods and maxMethodFiles are what a type may have: more methods than a reader keeps in mind,
// or in more files than a reader opens, are several types in one.
const maxMethods, maxMethodFiles = 30, 3

// measureMethods counts the methods of each type, without those in tests, and the files that they are in.
// A function that takes a struct of its package counts as a method of it, as structOf says.
func measureMethods(t *tree) (ms []measured, _ []finding) {
	for _, p := range t.Packages {
		structs, values := structNames(p), tableValues(p)
		// By the name of the type. A method that each platform has in a file of its own counts once.
		methods, files := map[string]map[string]bool{}, map[string]map[string]bool{}
		place := map[string]finding{}
		for fn, f := range functions(p) {
			// A function and a method may have the same name.
			var name, key string
			if fn.Recv != nil {
				name, key = receiver(fn.Recv), "."+fn.Name.Name
			} else if !values[fn.Name.Name] {
				name, key = structOf(fn, structs), fn.Name.Name
			}
			if name == "" {
				continue
			}
			if methods[name] == nil {
				methods[name], files[name] = map[string]bool{}, map[string]bool{}
				place[name] = t.at(fn.Pos(), "")
			}
			methods[name][key], files[name][f.Path] = true, true
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
