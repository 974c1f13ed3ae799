package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestManyActors tests that a backup takes as many goroutines and open files for many actors as for a few.
func TestManyActors(t *testing.T) {
	const few, many = 20, 1000
	always := func(int, int) bool { return true }
	counts(t, 1, always) // the first poll of the process opens files of its own
	files, goroutines := counts(t, few, always)
	// What the store does in the background comes and goes: a flush, a table, a file of the log that isn't in memory any more.
	const background = 8
	f, g := counts(t, many, func(f, g int) bool { return f <= files+background && g <= goroutines+background })
	if f > files+background || g > goroutines+background || goroutines < 1 {
		t.Errorf("%d actors take %d files and %d goroutines, %d take %d and %d", few, files, goroutines, many, f, g)
	}
}

// counts returns how many files are open, and how many goroutines there are, while a store with so many actors, each with
// a commit before the Writer began and one after, is in the bucket as a whole: more than before the store was there. It looks again until the
// numbers are fine, for what the store does in the background ends a while later.
func counts(t *testing.T, actors int, fine func(files, goroutines int) bool) (files, goroutines int) {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	filesBefore, before := openFiles(t), runtime.NumGoroutine()
	db, err := pebblekv.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, db.Close)
	store, err := actorstore.Open(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, store.Close)
	touch := func() {
		for i := range actors {
			a, err := store.Named(ctx, fmt.Sprint("actor ", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			var b batch.Batch
			b.Put(actorstore.AppendUserKey(nil, []byte("key")), fmt.Append(nil, i))
			if err := a.Apply(ctx, &b); err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	touch()
	to, err := bucket.Folder(filepath.Join(dir, "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := archive.Start(db, to, &archive.Options{Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, w.Close)
	touch()
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(testkit.Patience(time.Second)); ; runtime.Gosched() {
		files, goroutines = openFiles(t)-filesBefore, runtime.NumGoroutine()-before
		if s := w.Status(); fine(files, goroutines) && s.Objects > 0 && s.Lag == 0 || time.Now().After(end) {
			return files, goroutines
		}
	}
}

// openFiles returns how many files the process has open, 0 where the system doesn't tell.
func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// shut closes something.
func shut(t *testing.T, closing func() error) {
	t.Helper()
	if err := closing(); err != nil {
		t.Error(err)
	}
}
