package vfs_test

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// An olderPlan is a change of an actor whose database is of the older form.
type olderPlan struct {
	batch.Batch
	t     *testing.T
	actor *actorstore.Actor
}

// move rewrites a chunk into today's form.
func (p *olderPlan) move(i uint32) {
	p.t.Helper()
	v, err := p.actor.Get(p.t.Context(), layout.AppendNamedFileChunk(nil, "a.db", i), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Put(layout.AppendFileChunk(nil, main, i), v)
	p.Delete(layout.AppendNamedFileChunk(nil, "a.db", i))
}

// olderCases are plans, and what the check finds then.
var olderCases = []struct {
	name  string
	plant func(b *olderPlan)
	want  []string
}{
	{"whole", func(*olderPlan) {}, nil},
	{"half rewritten", func(b *olderPlan) { b.move(0); b.move(1); b.move(4) }, nil},
	{"half rewritten, chunk missing", func(b *olderPlan) {
		b.move(3)
		b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 4))
	}, []string{"sqlite/named/chunks/a.db/4: " + missed}},
	{"half rewritten, chunk too long", func(b *olderPlan) {
		b.move(3)
		b.Put(layout.AppendFileChunk(nil, main, 3), make([]byte, 5000))
	}, []string{"sqlite/chunks/main/3: it holds 5000 bytes"}},
	{"half rewritten, beyond the size", func(b *olderPlan) {
		b.move(3)
		b.Put(layout.AppendFileChunk(nil, main, 300), nil)
		b.Put(layout.AppendNamedFileChunk(nil, "a.db", 301), nil)
	}, []string{"harmless: sqlite/named/chunks/a.db/301: " + beyond, "harmless: sqlite/chunks/main/300: " + beyond}},
	{"chunk missing", func(b *olderPlan) {
		b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 3))
	},
		[]string{"sqlite/named/chunks/a.db/3: " + missed}},
	{"first chunk missing", func(b *olderPlan) {
		b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 0))
	},
		[]string{"sqlite/named/chunks/a.db/0: " + missed}},
	{"chunk too long", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileChunk(nil, "a.db", 3), make([]byte, 4097))
	},
		[]string{"sqlite/named/chunks/a.db/3: it holds 4097 bytes"}},
	{"size record damaged", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileMeta(nil, "a.db"), []byte{1})
	},
		[]string{"sqlite/named/metadata/a.db: it can't be read: "}},
	{"size record missing", func(b *olderPlan) {
		b.Delete(layout.AppendNamedFileMeta(nil, "a.db"))
	},
		[]string{"harmless: sqlite/named/chunks/a.db/0: " + sized}},
	{"damaged page", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileChunk(nil, "a.db", 3), bytes.Repeat([]byte{1}, chunked.Size))
	}, []string{"sqlite: Tree 2 page 4"}},
	{"hot journal", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), chunked.AppendMeta(nil, 9))
		b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 0), []byte("123456789"))
	}, []string{"unfinished, harmless: sqlite/named/metadata/a.db-journal: a transaction"}},
	{"hot journal, half rewritten", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), chunked.AppendMeta(nil, 5000))
		b.Put(layout.AppendFileChunk(nil, actorstore.FileJournal, 0), bytes.Repeat([]byte{1}, chunked.Size))
		b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 1), make([]byte, 904))
	}, []string{"unfinished, harmless: sqlite/named/metadata/a.db-journal: a transaction"}},
	{"hot journal, rewritten", func(b *olderPlan) {
		b.Put(layout.AppendFileMeta(nil, actorstore.FileJournal), chunked.AppendMeta(nil, 9))
		b.Put(layout.AppendFileChunk(nil, actorstore.FileJournal, 0), []byte("123456789"))
		b.Delete(layout.AppendNamedFileChunk(nil, "a.db", 3))
	}, []string{hot}},
	{"journal rewritten and still there", func(b *olderPlan) {
		b.Put(layout.AppendFileMeta(nil, actorstore.FileJournal), chunked.AppendMeta(nil, 0))
		b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), chunked.AppendMeta(nil, 9))
		b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 0), []byte("123456789"))
	}, []string{"harmless: sqlite/named/metadata/a.db-journal: another journal has taken its place"}},
	{"journal that is over", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileMeta(nil, "a.db-journal"), chunked.AppendMeta(nil, 9))
		b.Put(layout.AppendNamedFileChunk(nil, "a.db-journal", 0), make([]byte, 9))
	}, []string{"harmless: sqlite/named/metadata/a.db-journal: " + over}},
	{"WAL", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileMeta(nil, "a.db-wal"), chunked.AppendMeta(nil, 0))
	},
		[]string{"sqlite/named/metadata/a.db-wal: there is a wal file"}},
	{"a second database", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileMeta(nil, "b"), chunked.AppendMeta(nil, 10))
		b.Put(layout.AppendNamedFileChunk(nil, "b", 0), []byte("0123456789"))
	}, nil},
	{"nothing but a name", func(b *olderPlan) {
		b.Put(layout.AppendNamedFileChunk(nil, "-journal", 7), nil)
	},
		[]string{"harmless: sqlite/named/chunks/-journal/7: " + sized}},
}

// TestCheckOlder: databases of the older form, whole, half rewritten, and damaged.
func TestCheckOlder(t *testing.T) {
	for _, c := range olderCases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			older(t, r, "a.db")
			b := &olderPlan{t: t, actor: r.Actor}
			c.plant(b)
			if err := r.Actor.Commit(t.Context(), &b.Batch); err != nil {
				t.Fatal(err)
			}
			compareFindings(t, checkView(t, r.Store, r.Actor.ID(), nil), c.want)
		})
	}
}

// TestCheckBesideOlder: today's form is the database, files of the older form lie
// beside it.
func TestCheckBesideOlder(t *testing.T) {
	store, actor, _ := plantedStore(t, nil)
	plant(t, actor, func(p *planter) {
		p.Put(layout.AppendNamedFileMeta(nil, "x"), chunked.AppendMeta(nil, 10))
		p.Put(layout.AppendNamedFileChunk(nil, "x", 0), []byte("0123456789"))
	})
	compareFindings(t, checkView(t, store, actor.ID(), nil), nil)
	plant(t, actor, func(p *planter) { p.Delete(layout.AppendNamedFileChunk(nil, "x", 0)) })
	compareFindings(t, checkView(t, store, actor.ID(), nil), []string{"sqlite/named/chunks/x/0: " + missed})
}
