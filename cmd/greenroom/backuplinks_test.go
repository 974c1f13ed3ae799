package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestBackupLinks tests that a symbolic link doesn't lead a backup into the folder of its store, nor a store into that of a backup, and that a
// link to a folder stays when a store is restored to it.
func TestBackupLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, name); err != nil {
			t.Skip(err)
		}
	}
	must(t, "put", "data", "lobby", "k", "v")
	link("data", "link")
	must(t, "backup", "data", "bk")
	for _, args := range [][]string{
		{"backup", "data", filepath.Join("link", "new", "bk")}, {"backup", "pebble:link", filepath.Join("data", "bk")}, {"restore", "bk", filepath.Join("bk", "data")},
	} {
		if r := program(t.Context(), strings.NewReader(""), args...); r.code == serving.ExitOK || !strings.Contains(r.stderr, "one within the other") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if err := os.Mkdir("disk", 0o700); err != nil {
		t.Fatal(err)
	}
	link("disk", "store")
	must(t, "restore", "bk", "store")
	if info, err := os.Lstat("store"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if got := must(t, "get", "disk", "lobby", "k"); got != "v" {
		t.Errorf("the store has %q", got)
	}
	link("unplugged", "later")
	if r := program(t.Context(), strings.NewReader(""), "restore", "bk", "later"); r.code == serving.ExitOK || !strings.Contains(r.stderr, "symbolic link") {
		t.Errorf("to a link that leads nowhere: %+v", r)
	}
	if to, err := os.Readlink("later"); err != nil || to != "unplugged" {
		t.Errorf("that link leads to %q, %v", to, err)
	}
	if r := program(t.Context(), strings.NewReader(""), "backup", "gc", "bk", "--keep", "-1h"); r.code == serving.ExitOK {
		t.Errorf("a negative time: %+v", r)
	}
}
