package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// listTitle is the line of a comment above the list of a package's files. The list is indented, as code in a
// doc comment is, and ends with the indentation. It names every file but tests, from the top down: a file uses those that
// come after it. The comment may be part of the package comment, or stand below the package clause, where pages of documentation
// leave it out.
const listTitle = "Files, from the top down:"

// maxUnlisted is how many files a package may have without a list: a reader sees the order of a few.
const maxUnlisted = 10

// measureOrder counts the files of each package of the root module that a list should name. It reports a list
// that differs from the files.
func measureOrder(t *tree) (ms []measured, broken []finding) {
	for _, p := range t.Packages {
		if p.Nested {
			continue
		}
		names := p.names()
		lists := fileLists(p.Files)
		switch {
		case len(lists) > 1:
			broken = append(broken, finding{lists[1].path, 0, "second list of the package's files"})
		case len(lists) == 1:
			broken = append(broken, lists[0].compare(names)...)
		default:
			ms = append(ms, measured{
				name:   p.Dir,
				place:  finding{Path: p.Dir},
				counts: []int{len(names)},
				over:   len(names) > maxUnlisted,
				says:   fmt.Sprintf("%d files, and no comment with a line %q and an indented list below", len(names), listTitle),
			})
		}
	}
	return ms, broken
}

// A fileList is the list of a package's files.
type fileList struct {
	// path is of the file with the list.
	path string
	// names are of files, the highest first.
	names []string
}

// fileLists returns every list in the files of a package. A correct package has at most one.
func fileLists(files []*sourceFile) (lists []fileList) {
	for _, f := range files {
		if f.Test {
			continue
		}
		for _, c := range f.AST.Comments {
			if list, ok := indented(c.Text(), listTitle); ok {
				lists = append(lists, fileList{f.Path, strings.Fields(list)})
			}
		}
	}
	return lists
}

// compare says where l differs from the names of the files that there are.
func (l fileList) compare(names []string) (fs []finding) {
	differs := func(what, name string) { fs = append(fs, finding{l.path, 0, what + name}) }
	seen := map[string]bool{}
	for _, name := range l.names {
		if seen[name] {
			differs("the list of files has twice ", name)
		} else if !slices.Contains(names, name) {
			differs("the list of files has, and the package has not ", name)
		}
		seen[name] = true
	}
	for _, name := range names {
		if !seen[name] {
			differs("the list of files lacks ", name)
		}
	}
	return fs
}

// order returns the order of files that l gives, the lowest first. A file that l lacks is above the others.
func (l fileList) order(files []*sourceFile) []int {
	order := make([]int, len(files))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Index(l.names, path.Base(files[b].Path)) - slices.Index(l.names, path.Base(files[a].Path))
	})
	return order
}
