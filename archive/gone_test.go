package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/kv"
)

// watched is a bucket whose objects were all stored long ago, and that calls before with each Get, and with each List as that of "LIST PREFIX".
type watched struct {
	bucket.Bucket
	before func(name string)
}

func (w *watched) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	w.before(name)
	return w.Bucket.Get(ctx, name, offset, length)
}

func (w *watched) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	w.before("LIST " + prefix)
	return func(yield func(bucket.Object, error) bool) {
		for o, err := range w.Bucket.List(ctx, prefix) {
			o.Modified = time.Time{}
			if !yield(o, err) {
				return
			}
		}
	}
}

// newHistory returns a lineage with several bases, and a state between the first two.
func newHistory(t *testing.T) (m *model, memory *buckettest.Memory, between Bookmark) {
	t.Helper()
	memory = buckettest.NewMemory()
	m = newModel(t, 71, memory)
	m.opts.mergeRuns = 1000
	m.commit(100)
	m.start()
	for range 4 {
		m.commit(2)
		m.sync()
	}
	between = m.archive().manifest.bookmark(1, m.db.Records().Last()-1)
	m.stop()
	m.opts.baseBytes = 1
	m.open()
	m.start()
	for n := 0; n < 3; {
		m.commit(10)
		m.sync()
		all, err := readBases(t.Context(), memory, 1)
		if err != nil {
			t.Fatal(err)
		}
		n = len(all)
	}
	if err := m.w.Close(); err != nil {
		t.Fatal(err)
	}
	return m, memory, between
}

// TestCollectedMeanwhile tests that a state which Collect removes while it is read is not kept any more, and not damaged, whatever was about to be read; and
// that a reader which has all of it by then isn't disturbed.
func TestCollectedMeanwhile(t *testing.T) {
	m, memory, mark := newHistory(t)
	for _, when := range []string{"LIST " + logOf(1), "LIST " + basesOf(1), basesOf(1), logOf(1), tablePrefix} {
		for how, read := range readers(t, mark) {
			if how == "changes" && when == tablePrefix {
				continue // it reads none
			}
			t.Run(fmt.Sprint(how, " ", when), func(t *testing.T) {
				removed := false
				b := &watched{Bucket: memory.Copy(), before: func(string) {}}
				a, err := Open(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				b.before = func(name string) {
					if removed || !strings.HasPrefix(name, when) {
						return
					}
					removed = true
					if c, err := Collect(t.Context(), b, time.Now()); err != nil || c.Objects < 3 {
						t.Errorf("%+v, %v", c, err)
					}
				}
				if err := read(a); !removed || !errors.Is(err, ErrNoState) || errors.Is(err, kv.ErrCorrupt) {
					t.Errorf("removed %t; it says %v", removed, err)
				}
			})
		}
	}
	if got := restored(t, m.archive(), mark); !maps.Equal(got, m.states[mark.Number]) {
		t.Error("the state isn't what it was")
	}
}

// readers are the ways to read a state.
func readers(t *testing.T, mark Bookmark) map[string]func(*Archive) error {
	return map[string]func(*Archive) error{
		"restore": func(a *Archive) error {
			return a.Restore(t.Context(), mark, filepath.Join(t.TempDir(), "restored"), nil)
		},
		"open": func(a *Archive) (err error) {
			db, err := a.open(t.Context(), mark, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			for _, err := range db.Scan(t.Context(), kv.Range{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"changes": func(a *Archive) error {
			after := mark
			after.Number -= 2
			for _, err := range a.Changes(t.Context(), actorstore.ID{Label: 1}, after, mark) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// TestMissing tests that an object which is missing though its state is kept is damage: a table, and the last segment.
func TestMissing(t *testing.T) {
	_, memory, mark := newHistory(t)
	log, err := readLog(t.Context(), memory, 1)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(log, func(s numbered) bool { return s.last >= mark.Number })
	name, err := baseOf(t.Context(), memory, mark)
	if err != nil {
		t.Fatal(err)
	}
	base, err := readBase(t.Context(), memory, name)
	if err != nil {
		t.Fatal(err)
	}
	table := base.Files[slices.IndexFunc(base.Files, func(f baseFile) bool { return f.table() })]
	for _, object := range []string{log[i].name, table.object()} {
		for how, read := range readers(t, mark) {
			if how == "changes" && object == table.object() {
				continue // it reads none
			}
			b := &watched{Bucket: memory.Copy(), before: func(string) {}}
			a, err := Open(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			gone := false
			b.before = func(name string) {
				if gone || name != object {
					return
				}
				gone = true
				if err := b.Delete(t.Context(), object); err != nil {
					t.Error(err)
				}
			}
			if err := read(a); !gone || !errors.Is(err, kv.ErrCorrupt) || errors.Is(err, ErrNoState) {
				t.Errorf("%s without %s: %v", how, object, err)
			}
		}
	}
}

// TestVerifyCollected tests that what Collect removes while Verify reads is not a problem.
func TestVerifyCollected(t *testing.T) {
	_, memory, _ := newHistory(t)
	for _, when := range []string{"LIST " + logOf(1), basesOf(1), logOf(1), tablePrefix} {
		removed := false
		b := &watched{Bucket: memory.Copy(), before: func(string) {}}
		a, err := Open(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		reads := 0
		b.before = func(name string) {
			if removed || !strings.HasPrefix(name, when) {
				return
			}
			if reads++; reads < 2 && !strings.HasPrefix(when, "LIST") {
				return // in the middle of them
			}
			removed = true
			if _, err := Collect(t.Context(), b, time.Now()); err != nil {
				t.Error(err)
			}
		}
		v, err := a.Verify(t.Context(), func(err error) { t.Errorf("removed at %s: %v", when, err) }, nil)
		if err != nil || v.Problems > 0 || !removed {
			t.Errorf("removed at %s, %t: %+v, %v", when, removed, v, err)
		}
	}
}
