package sqlitesuite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/internal/sqlite3_wrap"
)

// A target is one database that a program works on.
type target struct {
	// vfs is the name of a registered VFS, db a file of it.
	vfs, db string
	// without are lines of config01.test that make no sense here.
	without []string
	// check looks at the target when all processes are gone.
	check func(t *testing.T)
}

// dsn opens the target with database/sql.
func (x target) dsn() string {
	return fmt.Sprintf("file:%s?vfs=%s", x.db, x.vfs)
}

// summary is the line in which mptest counts.
var summary = regexp.MustCompile(`Summary: (\d+) errors out of (\d+) tests`)

// runScript plays one script on a target that nothing has touched yet. --sync
// leaves PRAGMA synchronous on: without it SQLite asks no file for atomic
// writes, and syncs nothing.
func runScript(t *testing.T, x target, s script, options ...string) {
	m := &machine{main: func(w *sqlite3_wrap.Wrapper, argc, argv int32) int32 { return w.Xmain_mptest(argc, argv) }}
	args := append([]string{"mptest", x.db, s.name, "--vfs", x.vfs, "--sync", "--timeout", patience}, options...)
	lines, status := m.run(t, scriptFiles(t, x.without...), args...)
	if status != 0 {
		t.Errorf("mptest exited with status %d", status)
	}
	want := fmt.Sprintf("Summary: 0 errors out of %d tests", s.tests)
	got := "no summary"
	for _, line := range lines {
		if s := summary.FindString(line); s != "" {
			got = s
		}
	}
	if got != want {
		t.Errorf("%s: got %q, want %q", s.name, got, want)
	}
	if t.Failed() {
		logErrors(t, lines)
		return
	}
	checkIntegrity(t, x.dsn())
	x.check(t)
}

// logErrors logs the first errors that mptest printed, with what it did before.
func logErrors(t *testing.T, lines []string) {
	const before, most = 20, 100
	first := max(0, slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "ERROR") })-before)
	for _, line := range lines[first:min(len(lines), first+most)] {
		t.Log(line)
	}
}

// checkIntegrity opens a database anew and lets SQLite walk it.
func checkIntegrity(t *testing.T, dsn string) {
	t.Helper()
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "PRAGMA integrity_check")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"ok"}) {
		t.Errorf("integrity_check: got %q, want ok", got)
	}
}

// fileTarget is a file of the operating system.
func fileTarget(t *testing.T) target {
	return target{
		vfs:     "os",
		db:      filepath.Join(t.TempDir(), "test.db"),
		without: []string{osOnly},
		check:   func(*testing.T) {},
	}
}

// TestMptestFile plays the scripts over go-sqlite3's file VFS.
func TestMptestFile(t *testing.T) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) { runScript(t, fileTarget(t), s) })
	}
}
