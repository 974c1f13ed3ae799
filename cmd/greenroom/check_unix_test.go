//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckExposed: check reports a store that others can read, but not as a problem.
func TestCheckExposed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	must(t, "sql", dir, "music", "create table t(a)")
	const note, object = "note: the store: other users", `"exposed":true}`
	look := func(exposed bool) {
		t.Helper()
		if out := must(t, "check", dir); strings.Contains(out, note) != exposed || !strings.Contains(out, "no problems") {
			t.Errorf("check says %q, exposed %v", out, exposed)
		}
		if out := must(t, "check", "--json", dir); strings.Contains(out, object) != exposed || strings.Count(out, "\n") != 1 {
			t.Errorf("check --json says %q, exposed %v", out, exposed)
		}
	}
	look(false)
	for path := filepath.Dir(filepath.Dir(root)); path != filepath.Dir(path); path = filepath.Dir(path) {
		if info, err := os.Stat(path); err != nil || info.Mode()&0o011 == 0 {
			t.Skipf("%s is closed to others, %v", path, err)
		}
	}
	for _, path := range []string{filepath.Dir(root), root, dir} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	look(false) // of its files none can be read
	if err := os.Chmod(filepath.Join(dir, "LOCK"), 0o644); err != nil {
		t.Fatal(err)
	}
	look(true)
}
