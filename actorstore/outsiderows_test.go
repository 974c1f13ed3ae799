package actorstore_test

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// withAllRows makes an actor that has rows of all kinds: several of a key, a note, and in the index.
func withAllRows(t *testing.T, store *actorstore.Store, name string) actorstore.ID {
	t.Helper()
	a, err := store.Named(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b batch.Batch
	b.Put(actorstore.UserKey([]byte("k")), bytes.Repeat([]byte("v"), 25_000)) // several rows
	a.StageAttributes(&b, func(at *actorstore.Attributes) error {
		at.Labels = map[string]string{"k": name}
		return nil
	})
	if err := a.StageNote(&b, []byte{actorstore.NamespaceHost, 1}, []byte("note")); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return a.ID()
}

// TestRowActor tests that each row of a store is said to be of the actor that it is of, and which others begin as it does.
func TestRowActor(t *testing.T) {
	engine := memkv.New()
	store, err := actorstore.Open(t.Context(), engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ids := map[actorstore.ID]int{}
	for _, name := range []string{"a", "b"} {
		ids[withAllRows(t, store, name)] = 0
	}
	names, others := 0, 0
	for e, err := range engine.Scan(t.Context(), kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		id, n, ok := actorstore.RowActor(e.Key)
		about, leads := actorstore.RowAbout(e.Key)
		switch name, named := actorstore.RowName(e.Key); {
		case ok:
			if _, known := ids[id]; !known || about != id {
				t.Fatalf("%x is said to be of %v", e.Key, id)
			}
			in := 0
			for _, r := range actorstore.RowRanges(id) {
				if bytes.Compare(r.Start, e.Key) <= 0 && bytes.Compare(e.Key, r.End) < 0 {
					in++
					if !bytes.HasPrefix(r.Start, e.Key[:n]) || bytes.Compare(r.End, kv.PrefixEnd(e.Key[:n])) > 0 {
						t.Errorf("%x: the range %x to %x isn't what begins with %x", e.Key, r.Start, r.End, e.Key[:n])
					}
				}
			}
			if in != 1 {
				t.Errorf("%x is in %d ranges", e.Key, in)
			}
			ids[id]++
		case named:
			got, err := actorstore.ParseNameRow(name, e.Value)
			if _, known := ids[got]; err != nil || !known {
				t.Errorf("the name %q leads to %v, %v", name, got, err)
			}
			row, err := actorstore.NameRow(name)
			if err != nil || !bytes.Equal(row, e.Key) {
				t.Errorf("the row of %q is %x, not %x: %v", name, row, e.Key, err)
			}
			names++
		default:
			if leads {
				ids[about]++
			}
			others++
		}
		own := actorstore.IndexRows()
		if in := bytes.Compare(own.Start, e.Key) <= 0 && bytes.Compare(e.Key, own.End) < 0; in == (ok && n == 25) {
			t.Errorf("%x: it is said to be of the store's own rows: %v", e.Key, in)
		}
	}
	if names != 2 || others < 3 || len(ids) != 2 {
		t.Errorf("%d names, %d other rows, %v", names, others, ids)
	}
	for id, n := range ids {
		if n < 8 { // four of its key, head, name, attributes, note, and in the index
			t.Errorf("%v has %d rows", id, n)
		}
	}
}
