package vfs

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// TestCheckOlder: databases of the older form, whole, half rewritten, and damaged.
func TestCheckOlder(t *testing.T) {
	move := func(a *actorstore.Actor, b *batch.Batch, i uint32) {
		v, err := a.Get(t.Context(), layout.AppendNamedFileChunk(nil, "a.db", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Put(layout.AppendFileChunk(nil, main, i), v)
		b.Delete(layout.AppendNamedFileChunk(nil, "a.db", i))
	}
	const word = "sqlite/named/"
	for _, c := range []struct {
		name  string
		plant func(a *actorstore.Actor, b *batch.Batch)
		want  []string
	}{
		{"whole", func(*actorstore.Actor, *batch.Batch) {}, nil},
		{"half rewritten", func(a *actorstore.Actor, b *batch.Batch) { move(a, b, 0); move(a, b, 1); move(a, b, 4) }, nil},
		{"half rewritten, chunk missing", func(a *actorstore.Actor, b *batch.Batch) {
			move(a, b, 3)
			b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 4))
		}, []string{word + "chunks/a.db/4: " + missed}},
		{"half rewritten, chunk too long", func(a *actorstore.Actor, b *batch.Batch) {
			move(a, b, 3)
			b.Put(layout.AppendFileChunk(nil, main, 3), make([]byte, 5000))
		}, []string{"sqlite/chunks/main/3: it holds 5000 bytes"}},
		{"half rewritten, beyond the size", func(a *actorstore.Actor, b *batch.Batch) {
			move(a, b, 3)
			b.Put(layout.AppendFileChunk(nil, main, 300), nil)
			b.Put(layout.AppendNamedFileChunk(nil, "a.db", 301), nil)
		}, []string{"harmless: " + word + "chunks/a.db/301: " + beyond, "harmless: sqlite/chunks/main/300: " + beyond}},
		{"chunk missing", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 3))
		},
			[]string{word + "chunks/a.db/3: " + missed}},
		{"first chunk missing", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 0))
		},
			[]string{word + "chunks/a.db/0: " + missed}},
		{"chunk too long", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileChunk(nil, "a.db", 3), make([]byte, 4097))
		},
			[]string{word + "chunks/a.db/3: it holds 4097 bytes"}},
		{"size record damaged", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileMeta(nil, "a.db"), []byte{1})
		},
			[]string{word + "metadata/a.db: it can't be read: "}},
		{"size record missing", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Delete(layout.AppendNamedFileMeta(nil, "a.db"))
		},
			[]string{"harmless: " + word + "chunks/a.db/0: " + sized}},
		{"damaged page", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileChunk(nil, "a.db", 3), bytes.Repeat([]byte{1}, chunkSize))
		}, []string{"sqlite: Tree 2 page 4"}},
		{"hot journal", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), appendMeta(nil, 9))
			b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 0), []byte("123456789"))
		}, []string{"unfinished, harmless: " + word + "metadata/a.db-journal: a transaction"}},
		{"hot journal, half rewritten", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), appendMeta(nil, 5000))
			b.Put(layout.AppendFileChunk(nil, actorstore.FileJournal, 0), bytes.Repeat([]byte{1}, chunkSize))
			b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 1), make([]byte, 904))
		}, []string{"unfinished, harmless: " + word + "metadata/a.db-journal: a transaction"}},
		{"hot journal, rewritten", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendFileMeta(nil, actorstore.FileJournal), appendMeta(nil, 9))
			b.Put(layout.AppendFileChunk(nil, actorstore.FileJournal, 0), []byte("123456789"))
			b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 3))
		}, []string{hot}},
		{"journal rewritten and still there", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendFileMeta(nil, actorstore.FileJournal), appendMeta(nil, 0))
			b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), appendMeta(nil, 9))
			b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 0), []byte("123456789"))
		}, []string{"harmless: " + word + "metadata/a.db-journal: another journal has taken its place"}},
		{"journal that is over", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), appendMeta(nil, 9))
			b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 0), make([]byte, 9))
		}, []string{"harmless: " + word + "metadata/a.db-journal: " + over}},
		{"WAL", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileMeta(nil, "a.db-wal"), appendMeta(nil, 0))
		},
			[]string{word + "metadata/a.db-wal: there is a wal file"}},
		{"a second database", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileMeta(nil, "b"), appendMeta(nil, 10))
			b.Put(layout.AppendNamedFileChunk(nil, "b", 0), []byte("0123456789"))
		}, nil},
		{"nothing but a name", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(layout.AppendNamedFileChunk(nil, "-journal", 7), nil)
		},
			[]string{"harmless: " + word + "chunks/-journal/7: " + sized}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			older(t, r, "a.db")
			var b batch.Batch
			c.plant(r.actor, &b)
			if err := r.actor.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			compareFindings(t, checkView(t, r.store, r.actor.ID(), nil), c.want)
		})
	}
}

// TestCheckBesideOlder: today's form is the database, files of the older form lie
// beside it.
func TestCheckBesideOlder(t *testing.T) {
	store, actor, _ := plantedStore(t, nil)
	plant(t, actor, func(p *planter) {
		p.Put(layout.AppendNamedFileMeta(nil, "x"), appendMeta(nil, 10))
		p.Put(layout.AppendNamedFileChunk(nil, "x", 0), []byte("0123456789"))
	})
	compareFindings(t, checkView(t, store, actor.ID(), nil), nil)
	plant(t, actor, func(p *planter) { p.Delete(layout.AppendNamedFileChunk(nil, "x", 0)) })
	compareFindings(t, checkView(t, store, actor.ID(), nil), []string{"sqlite/named/chunks/x/0: " + missed})
}
