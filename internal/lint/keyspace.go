package lint

import (
	"fmt"
	"path"
	"strings"
)

// layoutTitle is the comment line in a keys.go above the table of its keys. The
// table is indented, as code in a doc comment is, and ends with the indentation.
const layoutTitle = "Key layout:"

// checkKeys wants a table of the keys in every keys.go.
func checkKeys(t *tree) []finding {
	return t.eachFile(func(_ *pkg, f *sourceFile) []finding {
		if path.Base(f.Path) != "keys.go" || keyLayout(f) != "" {
			return nil
		}
		return []finding{{f.Path, 0, "has no comment with a line \"" + layoutTitle + "\" and an indented table below"}}
	})
}

// keyLayout returns the table of a keys.go without its indentation, "" when it
// has none.
func keyLayout(f *sourceFile) string {
	for _, c := range f.AST.Comments {
		if table, ok := indented(c.Text(), layoutTitle); ok {
			return table
		}
	}
	return ""
}

// indented returns the indented lines of a comment that follow a line with title alone, without their
// indentation. ok says that there is such a line.
func indented(comment, title string) (part string, ok bool) {
	_, rest, ok := strings.Cut("\n"+comment, "\n"+title+"\n")
	var b strings.Builder
	for line := range strings.Lines(rest) {
		if strings.TrimSpace(line) != "" && line[0] != '\t' && line[0] != ' ' {
			break
		}
		b.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return strings.Trim(b.String(), "\n"), ok
}

// renderKeyspace returns docs/keyspace.md: the key tables of the tree. It ends
// with a newline.
func renderKeyspace(t *tree) string {
	var b strings.Builder
	b.WriteString("# Keyspace\n\n" +
		"What is stored under which key. This page is put together from the `keys.go` files,\n" +
		"which are the only ones that build keys; `go test ./internal/lint -update` writes it.\n" +
		"Keys of an actor are given in LayoutGreenroom; the section on `actorstore` says what differs in LayoutRivetKit.\n")
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if path.Base(f.Path) == "keys.go" {
				fmt.Fprintf(&b, "\n## `%s`\n\n```text\n%s\n```\n", p.Dir, keyLayout(f))
			}
		}
	}
	return b.String()
}
