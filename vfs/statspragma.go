package vfs

import (
	"fmt"
	"reflect"
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

// report is the answer to PRAGMA greenroom_stats.
func (db *database) report() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s=%v\n", name, value) }
	s := reflect.ValueOf(db.stats.read())
	for i := range s.NumField() {
		line(snake(s.Type().Field(i).Name), s.Field(i).Interface())
	}
	db.mu.Lock()
	line("connections", db.handles)
	line("file_bytes", db.cur.size)
	db.mu.Unlock()
	db.wal.mem.RLock()
	line("log_bytes", db.wal.file.Size())
	db.wal.mem.RUnlock()
	if db.actor != nil {
		line("actor_commits", db.actor.Seq())
		line("actor_bytes", db.actor.Used())
		line("rows_read", db.actor.Rows())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

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
