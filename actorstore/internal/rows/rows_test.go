package rows_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestWriteRead: what a Writer stages a Space reads, with no more rows than that takes.
func TestWriteRead(t *testing.T) {
	eng := memkv.New()
	sp := rows.Space{Source: eng, Prefix: layout.NewPrefix(layout.ID{}), Pool: rows.NewPool(func(key []byte) string { return string(key) })}
	var w rows.Writer
	w.Stamp(1)
	key, before := []byte("k"), int64(-1)
	for _, size := range []int{0, 1, 3*layout.RowSize + 1, layout.RowSize, layout.RowSize - 1, 2 * layout.RowSize, 0} {
		value := bytes.Repeat([]byte("v"), size)
		w.Reset(sp.Prefix)
		w.Write(&batch.Op{Kind: batch.Put, Key: key, Value: value}, before)
		commit(t, eng, &w)
		before = int64(size)
		if got, err := sp.Get(t.Context(), key, []byte("dst")); err != nil || !bytes.Equal(got, append([]byte("dst"), value...)) {
			t.Errorf("%d bytes: got %d, %v", size, len(got)-3, err)
		}
		page, err := sp.Page(t.Context(), key, nil)
		if missing := errors.Is(err, kv.ErrNotFound); missing != (size == 0) || len(page) != min(size, layout.RowSize) {
			t.Errorf("%d bytes: a page of %d, %v", size, len(page), err)
		}
		for what, f := range map[string]func() (int64, error){
			"Size":     func() (int64, error) { return sp.Size(t.Context(), key) },
			"NearSize": func() (int64, error) { return sp.NearSize(t.Context(), key) },
		} {
			if n, err := f(); n != before || err != nil {
				t.Errorf("%s of %d bytes is %d, %v", what, size, n, err)
			}
		}
		for _, reverse := range []bool{false, true} {
			n := 0
			for e, err := range sp.List(t.Context(), rows.Options{Reverse: reverse}, nil) {
				if n++; err != nil || !bytes.Equal(e.Key, key) || !bytes.Equal(e.Value, value) || e.Size != size {
					t.Errorf("reverse %v: %q with %d of %d bytes, %v", reverse, e.Key, len(e.Value), size, err)
				}
			}
			if n != 1 {
				t.Errorf("reverse %v: %d keys", reverse, n)
			}
		}
		if n, want := count(t, eng), layout.RowsOf(before)+1; n != want {
			t.Errorf("%d bytes are in %d rows, want %d", size, n, want)
		}
	}
	w.Reset(sp.Prefix)
	w.Write(&batch.Op{Kind: batch.Delete, Key: key}, before)
	commit(t, eng, &w)
	if n := count(t, eng); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := sp.Get(t.Context(), key, nil); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("get of a deleted key: %v", err)
	}
	if n, err := sp.NearSize(t.Context(), key); n != -1 || err != nil {
		t.Errorf("the size of a deleted key is %d, %v", n, err)
	}
}

func commit(t *testing.T, eng kv.Engine, w *rows.Writer) {
	t.Helper()
	if err := eng.Commit(t.Context(), &kv.Commit{Ops: w.Staged}); err != nil {
		t.Fatal(err)
	}
}

// count returns how many rows the engine has.
func count(t *testing.T, eng kv.Engine) (n int) {
	t.Helper()
	for _, err := range eng.Scan(t.Context(), kv.Range{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	return n
}
