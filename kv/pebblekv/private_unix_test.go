//go:build unix

package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/greenroomdb/greenroom/kv"
)

// TestPrivate holds that whatever a store makes is its owner's alone, in processes with three
// umasks: a process has one for all its goroutines.
func TestPrivate(t *testing.T) {
	const child = "PEBBLEKV_TEST_UMASK"
	if mask := os.Getenv(child); mask != "" {
		var m int
		if _, err := fmt.Sscanf(mask, "%o", &m); err != nil {
			t.Fatal(err)
		}
		syscall.Umask(m)
		t.Run("new", testPrivateNew)
		t.Run("old", testPrivateOld)
		return
	}
	for _, mask := range []string{"000", "022", "077"} {
		t.Run(mask, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestPrivate$", "-test.v")
			cmd.Env = append(os.Environ(), child+"="+mask)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "--- PASS: TestPrivate/") != 2 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// testPrivateNew looks at a store, and at a checkpoint, after everything that makes files.
func testPrivateNew(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "parent", "store")
	seen := map[string]bool{}
	look := func(when string) {
		for path, mode := range modes(t, filepath.Join(root, "parent")) {
			seen[kindOf(path)] = true
			if want := ownMode(mode); mode.Perm() != want {
				t.Errorf("%s: %s has mode %v, want %v", when, path, mode, want)
			}
		}
	}
	for round := range 3 {
		db, err := Open(dir, &Options{MemtableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		look("opened")
		for range 3 {
			fill(t, db)
			if err := db.store.db.Flush(); err != nil { // and the next log, which may be one used before
				t.Fatal(err)
			}
			look("flushed")
		}
		if err := db.store.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
			t.Fatal(err)
		}
		look("compacted")
		fill(t, db)
		if err := db.Checkpoint(ctx, filepath.Join(root, "parent", "copies", fmt.Sprint(round))); err != nil {
			t.Fatal(err)
		}
		look("copied")
		if exposed, err := Exposed(dir); exposed || err != nil {
			t.Errorf("Exposed: %v, %v", exposed, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		look("closed")
	}
	for _, kind := range []string{"store", "LOCK", "MANIFEST", "OPTIONS", "marker", ".log", ".sst"} {
		if !seen[kind] {
			t.Errorf("no %s was seen: %v", kind, seen)
		}
	}
}

// testPrivateOld opens a store that others can read: what was there keeps its mode, what comes
// is private, and Exposed says whether it matters.
func testPrivateOld(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "store")
	create(t, dir)
	chmod := func(mode fs.FileMode, paths ...string) {
		for _, p := range paths {
			if err := os.Chmod(p, mode); err != nil && !errors.Is(err, fs.ErrNotExist) { // else removed meanwhile
				t.Fatal(err)
			}
		}
	}
	old := modes(t, dir)
	for p, mode := range old {
		chmod(ownMode(mode)|ownMode(mode)>>3|ownMode(mode)>>6, p)
	}
	old = modes(t, dir)
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, db)
	for p, mode := range modes(t, dir) {
		if was, ok := old[p]; ok && mode != was {
			t.Errorf("%s had mode %v, and has %v", p, was, mode)
		} else if !ok && mode.Perm() != workaround.FileMode && filepath.Ext(p) != ".wal" { // which is an old one used again
			t.Errorf("%s is new, and has mode %v", p, mode)
		}
	}

	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	above := filepath.Dir(root) // of the test as well, and made for its owner alone
	exposed := func(want bool, when string) {
		t.Helper()
		if got, err := Exposed(dir); got != want || err != nil {
			t.Errorf("%s: Exposed is %v, %v, want %v", when, got, err, want)
		}
	}
	exposed(false, "a directory above is closed")
	chmod(0o711, above, root)
	for p := filepath.Dir(above); p != filepath.Dir(p); p = filepath.Dir(p) {
		if info, err := os.Stat(p); err != nil || info.Mode()&0o011 == 0 {
			t.Logf("not looked at: %s is closed, %v", p, err)
			return
		}
	}
	exposed(true, "files can be read")
	chmod(0o700, dir)
	exposed(false, "the store's directory is closed")
	chmod(0o711, dir)
	for p := range modes(t, dir) {
		if p != dir {
			chmod(0o600, p)
		}
	}
	exposed(false, "no file can be read")
	chmod(0o733, dir)
	exposed(true, "files can be put there")
	chmod(0o710, dir)
	chmod(0o640, filepath.Join(dir, "LOCK"))
	exposed(true, "the group can read a file")
}

// fill commits more than a memtable of 1 MiB holds.
func fill(t *testing.T, db *DB) {
	t.Helper()
	for i := range 20 {
		op := kv.Set(fmt.Appendf(nil, "key %d", i), bytes.Repeat([]byte{byte(i)}, 100_000))
		if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{op}}); err != nil {
			t.Fatal(err)
		}
	}
}

// modes returns the modes of all that is below dir, and of dir.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	all := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err == nil {
			all[path] = info.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ownMode is what something of that mode should have.
func ownMode(mode fs.FileMode) fs.FileMode {
	if mode.IsDir() {
		return workaround.DirMode
	}
	return workaround.FileMode
}

// kindOf returns what kind of file it is, by its name.
func kindOf(path string) string {
	name := filepath.Base(path)
	if ext := filepath.Ext(name); ext == ".log" || ext == ".sst" {
		return ext
	}
	return strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '.' })[0]
}
