package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestWithoutLogRest damages each record of the log in turn: a store that is opened without the log's rest holds exactly what was
// committed before, says why, and which commits it leaves out. Nothing in the store is changed.
func TestWithoutLogRest(t *testing.T) {
	const commits = 8
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "s")
	db, err := Open(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range commits {
		if err := db.Commit(ctx, numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	copyStore(t, from, dir)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, logDir, "000002.wal")
	whole := readFile(t, name)
	for n := range commits {
		key := bytes.Index(whole, fmt.Appendf(nil, "%06d", n))
		for _, at := range []int{key - 28, key - 20, key, key + 3000} { // in the header of the record, and in its batch
			b := bytes.Clone(whole)
			b[at] ^= 4
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			testWithoutLogRest(t, dir, n, commits)
			if !bytes.Equal(readFile(t, name), b) {
				t.Errorf("reading a store with record %d damaged at %d changes its log", n, at)
			}
		}
	}
}

// testWithoutLogRest opens a store of which the record with numbered(n) is damaged.
func testWithoutLogRest(t *testing.T, dir string, n, commits int) {
	t.Helper()
	var cause error
	db, err := Open(dir, &Options{ReadOnly: true, WithoutLogRest: func(err error) { cause = err }})
	if err != nil {
		t.Fatalf("record %d damaged: %v", n, err)
	}
	defer db.Close()
	if got := all(t, db); len(got) != n {
		t.Errorf("record %d damaged: the store has %d rows", n, len(got))
	}
	var left []string
	for c, err := range (&Salvage{db}).LeftCommits() {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, fmt.Sprintf("%d of %s", c.Number-c.Last, c.Touched[0].Start))
	}
	var want []string
	for i := n + 1; i < commits; i++ {
		want = append(want, fmt.Sprintf("%d of %06d", i-n+1, i))
	}
	if !slices.Equal(left, want) {
		t.Errorf("record %d damaged: what is left out is %q, want %q", n, left, want)
	}
	if n == commits-1 {
		return // nothing behind the last record says that it was on stable storage
	}
	if !errors.Is(cause, ErrLogDamaged) || !strings.Contains(cause.Error(), "000002.wal") {
		t.Errorf("record %d damaged: the cause is %v", n, cause)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		if _, err := Open(dir, &Options{ReadOnly: readOnly}); !errors.Is(err, ErrLogDamaged) || !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("record %d damaged: Open with ReadOnly %v returns %v", n, readOnly, err)
		}
	}
}

// TestSalvageTables damages each table at places of it: each row that is handed over is what was stored, and each one that isn't lies in a gap.
func TestSalvageTables(t *testing.T) {
	s := newLossy(t, true)
	s.compact()
	places := testkit.Pick(6, 14, 1000)
	lost, kept := 0, 0
	for _, name := range s.files {
		if filepath.Ext(name) != ".sst" {
			continue
		}
		b := readFile(t, filepath.Join(s.dir, name))
		for i := range places {
			bad := bytes.Clone(b)
			bad[i*len(b)/places] ^= 1
			if i%3 == 0 {
				bad[(i*7+5)%places*len(b)/places] ^= 1 // a second one
			}
			copyStore(t, s.dir, s.img)
			if err := os.WriteFile(filepath.Join(s.img, name), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := OpenSalvage(s.img, nil)
			if err != nil {
				t.Fatalf("%s damaged at place %d: %v", name, i, err)
			}
			got, missing := salvaged(t, db, s.want)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			lost, kept = lost+missing, kept+got
		}
	}
	t.Logf("%d rows kept, %d lost", kept, lost)
	if kept <= lost || lost == 0 {
		t.Errorf("%d rows are lost, and %d are not", lost, kept)
	}
}

// compact makes the store's tables the same ones each time, however far Pebble came.
func (s *lossy) compact() {
	s.t.Helper()
	db, err := Open(s.dir, s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(db.store.db.Compact(ctx, []byte{0}, []byte{0xff}, false), db.Close()); err != nil {
		s.t.Fatal(err)
	}
	s.files = storeFiles(s.t, s.dir)
}

// salvaged returns how many rows of a store there are, and how many are lost.
func salvaged(t *testing.T, s *Salvage, want map[string]string) (got, lost int) {
	t.Helper()
	missing := maps.Clone(want)
	last := ""
	row := func(e kv.Entry) error {
		if string(e.Key) <= last || missing[string(e.Key)] != string(e.Value) {
			t.Errorf("the row %q is handed over behind %q", e.Key, last)
		}
		last = string(e.Key)
		delete(missing, last)
		got++
		return nil
	}
	gap := func(g Gap) error {
		if string(g.Start) <= last && g.Cause == nil {
			t.Errorf("the gap is %+v, behind %q", g, last)
		}
		maps.DeleteFunc(missing, func(key, _ string) bool {
			in := key >= string(g.Start) && (g.End == nil || key < string(g.End))
			if in {
				lost++
			}
			return in
		})
		return nil
	}
	if err := s.Rows(ctx, row, gap); err != nil {
		t.Error(err)
	}
	for key := range missing {
		t.Errorf("the row %q is missing, and in no gap", key)
	}
	return got, lost
}
