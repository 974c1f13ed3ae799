package archive

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// keptFormat is a bucket of the first version, with two bases, segments that were put together, and others: 500 commits of a model. It is
// written anew with KEEP_FORMAT=1, which only a change of version is a reason for.
const keptFormat = "testdata/format1"

// keptRows returns what it has with its last commit.
func keptRows(t *testing.T) (last uint64, rows map[string]string) {
	m := newModel(t, 41, folder(t))
	m.commit(500)
	last = m.db.Records().Last()
	rows = maps.Clone(m.rows)
	m.stop()
	return last, rows
}

// TestKeptFormat tests that a bucket of each version that was written can be read.
func TestKeptFormat(t *testing.T) {
	t.Parallel()
	if os.Getenv("KEEP_FORMAT") != "" {
		keepFormat(t)
	}
	dir := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(dir, os.DirFS(keptFormat)); err != nil {
		t.Fatal(err)
	}
	b, err := bucket.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	v, err := a.Verify(t.Context(), func(err error) { t.Error(err) }, nil)
	if err != nil || v.Lines != 1 || v.Bases < 2 || v.Segments < 2 || v.Tables == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	lines, err := a.Lines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last, rows := keptRows(t)
	mark := lines[0].Last
	if mark.Number != last {
		t.Fatalf("its last state is %s, want %d", mark, last)
	}
	if got := restored(t, a, mark); !maps.Equal(got, rows) {
		t.Errorf("it has %d rows, want %d", len(got), len(rows))
	}
	merged := false
	for o, err := range b.List(t.Context(), logOf(1)) {
		if err != nil {
			t.Fatal(err)
		}
		merged = merged || strings.Contains(o.Name, "-")
	}
	if !merged {
		t.Error("no segment was put together")
	}
}

// keepFormat writes the bucket.
func keepFormat(t *testing.T) {
	if err := os.RemoveAll(keptFormat); err != nil {
		t.Fatal(err)
	}
	b, err := bucket.Folder(keptFormat)
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(t, 41, b)
	m.opts.baseBytes, m.opts.mergeRuns = 15_000, 4
	m.start()
	for i := range 50 {
		m.commit(10)
		m.sync()
		if i == 49 {
			fmt.Println("kept", m.db.Records().Last(), "commits")
		}
	}
	m.stop()
	if err := os.Remove(filepath.Join(keptFormat, ".unfinished")); err != nil {
		t.Fatal(err)
	}
}
