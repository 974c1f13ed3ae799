package vfs

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// TestShortChunks: what a chunk lacks reads as zeros, nothing beyond the size is
// seen, and overwriting, growing and truncating such a file keeps the quota exact,
// whatever was read before.
func TestShortChunks(t *testing.T) {
	const size = 4*chunkSize + 50
	ff := bytes.Repeat([]byte{0xff}, chunkSize)
	want := make([]byte, size)
	copy(want, ff[:10])
	copy(want[2*chunkSize:], ff[:chunkSize-1])
	copy(want[4*chunkSize:], ff[:50])
	for _, read := range []bool{false, true} {
		for name, change := range map[string]func(f *chunked) error{
			"overwrite": func(f *chunked) error { _, err := f.writeAt(t.Context(), bytes.Repeat([]byte{7}, size), 0); return err },
			"one byte":  func(f *chunked) error { _, err := f.writeAt(t.Context(), []byte{7}, chunkSize+9); return err },
			"grow":      func(f *chunked) error { _, err := f.writeAt(t.Context(), []byte{7}, 6*chunkSize+1); return err },
			"cut":       func(f *chunked) error { return f.truncate(t.Context(), 5) },
			"cut all":   func(f *chunked) error { return f.truncate(t.Context(), 0) },
		} {
			r := newRig(t, batch.Limits{})
			var b batch.Batch
			b.Put(layout.AppendFileMeta(nil, actorstore.FileMain), appendMeta(nil, size))
			for i, chunk := range [][]byte{ff[:10], {}, ff[:chunkSize-1], nil, ff} {
				if chunk != nil {
					b.Put(layout.AppendFileChunk(nil, actorstore.FileMain, uint32(i)), chunk)
				}
			}
			if err := r.actor.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			f := &chunked{tag: actorstore.FileMain, reader: r.actor, layout: r.actor.Layout()}
			if err := f.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, size+chunkSize)
			if read {
				if n, _ := f.readAt(t.Context(), got, 0); !bytes.Equal(got[:n], want) {
					t.Errorf("%s: what is stored reads wrong", name)
				}
			}
			if err := change(f); err != nil {
				t.Fatal(err)
			}
			before := make([]byte, 8*chunkSize)
			n, _ := f.readAt(t.Context(), before, 0)
			if name == "grow" && (!bytes.Equal(before[:size], want) || bytes.Count(before[size:], []byte{0}) != len(before)-size-1) {
				t.Errorf("%s: something else than zeros and the byte came to light", name)
			}
			if err := storeAll(t.Context(), r.actor, f); err != nil {
				t.Fatal(err)
			}
			if err := f.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := make([]byte, 8*chunkSize)
			if m, _ := f.readAt(t.Context(), after, 0); !bytes.Equal(before[:n], after[:m]) {
				t.Errorf("%s: the store reads differently from memory", name)
			}
			exact(t, r.actor)
		}
	}
}

// TestShortChunksSQL: SQLite finds a database whole whose chunks don't store the
// zeros at their ends, and changes it.
func TestShortChunksSQL(t *testing.T) {
	for _, limits := range []batch.Limits{{}, oneBatch} {
		r := newRig(t, batch.Limits{})
		db, err := Open(t.Context(), r.actor, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range olderSetup {
			exec(t, db, s)
		}
		content := contentOf(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		var b batch.Batch
		short := 0
		start, end := layout.FileChunks(actorstore.FileMain, 0)
		for e, err := range r.actor.List(t.Context(), actorstore.ListOptions{Start: start, End: end}) {
			if err != nil {
				t.Fatal(err)
			}
			if v := bytes.TrimRight(e.Value, "\x00"); len(v) < len(e.Value) {
				b.Put(e.Key, bytes.Clone(v))
				short++
			}
		}
		if err := r.actor.Commit(t.Context(), &b); err != nil || short < 2 {
			t.Fatalf("%d short chunks, %v", short, err)
		}
		r.reopen(t, limits)
		db = r.open(t, nil)
		if got := contentOf(t, db); got != content {
			t.Errorf("the database holds %.60s, want %.60s", got, content)
		}
		for _, s := range []string{"update t set b = randomblob(800)", "insert into t(b) values (zeroblob(20000))", "delete from t where a % 2", "vacuum"} {
			exec(t, db, s)
			intact(t, db)
			exact(t, r.actor)
		}
	}
}
