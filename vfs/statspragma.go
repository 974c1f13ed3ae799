package vfs

import (
	"strings"
	"unicode"
)

// statsPragma is a PRAGMA of this package's own, which SQLite doesn't know:
//
//	PRAGMA greenroom_stats
//
// answers with one row of one text, a line name=value for each count: first those of
// Stats, in their order and under their names in snake case, then what the database and
// its actor know besides. Names stay; later versions may add lines.
const statsPragma = "greenroom_stats"

// snake turns a name in camel case to snake case.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
