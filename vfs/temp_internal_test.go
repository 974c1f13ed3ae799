package vfs

import (
	"errors"
	"testing"
)

// TestTempFile: what a temporary file takes is its size, through writes, truncations and
// the way from memory to disk, and nothing in the end.
func TestTempFile(t *testing.T) {
	space := &tempRoom{most: 10_000}
	f := &tempFile{dir: t.TempDir(), bound: 4000, space: space}
	holds := func(want int64) {
		t.Helper()
		if size, err := f.Size(); size != want || err != nil || space.used.Load() != want {
			t.Errorf("a size of %d, %v, and %d bytes taken, want %d", size, err, space.used.Load(), want)
		}
	}
	write := func(n int, off int64) error {
		_, err := f.WriteAt(make([]byte, n), off)
		return err
	}
	if err := errors.Join(write(1000, 0), write(500, 200), write(1000, 2000)); err != nil {
		t.Fatal(err)
	}
	holds(3000)
	if err := f.Truncate(1500); err != nil {
		t.Fatal(err)
	}
	holds(1500)
	if err := f.Truncate(5000); err != nil { // it doesn't grow so
		t.Fatal(err)
	}
	holds(1500)
	if err := write(2000, 3000); err != nil || f.file == nil {
		t.Fatal(err)
	}
	holds(5000)
	if err := write(5001, 5000); err == nil {
		t.Error("there was room")
	}
	holds(5000)
	if err := write(5000, 5000); err != nil {
		t.Error(err)
	}
	holds(10_000)
	if err := f.Truncate(100); err != nil {
		t.Fatal(err)
	}
	holds(100)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	holds(0)
}
