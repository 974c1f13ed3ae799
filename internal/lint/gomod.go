package lint

import (
	"path"
	"strings"
)

// checkRequires wants a comment behind every direct requirement of every
// module, which names the package that needs it. The go command writes
// "// indirect" behind the others.
func checkRequires(t *tree) []finding {
	var fs []finding
	for _, x := range t.Texts {
		if path.Base(x.Path) != "go.mod" {
			continue
		}
		for _, r := range requirements(x.Data) {
			if r.comment == "" {
				fs = append(fs, finding{x.Path, r.line, r.module + " has no comment saying who needs it"})
			}
		}
	}
	return fs
}

// A requirement is one line of a go.mod's require directives.
type requirement struct {
	module, comment string
	line            int
}

// requirements reads the two forms that the go command writes: a directive with
// one module, and a block.
func requirements(gomod string) []requirement {
	var rs []requirement
	line, block := 0, false
	for text := range strings.Lines(gomod) {
		line++
		text = strings.TrimSpace(text)
		rest, single := strings.CutPrefix(text, "require ")
		switch {
		case text == "require (":
			block = true
			continue
		case text == ")":
			block = false
			continue
		case single:
			text = rest
		case !block:
			continue
		}
		code, comment, _ := strings.Cut(text, "//")
		if fields := strings.Fields(code); len(fields) > 0 {
			rs = append(rs, requirement{fields[0], strings.TrimSpace(comment), line})
		}
	}
	return rs
}
