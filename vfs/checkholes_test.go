package vfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// missing returns the numbers of the chunks that the main file doesn't have.
func missing(t testing.TB, a *actorstore.Actor) (holes []uint32, count int64) {
	t.Helper()
	f := tagged(main)
	snap, err := a.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	c := &checker{ctx: t.Context(), r: snap}
	if err := c.load(f); err != nil {
		t.Fatal(err)
	}
	count = chunkCount(f.size)
	for i := range uint32(count) {
		if _, err := a.Get(t.Context(), f.appendChunk(nil, i), nil); errors.Is(err, actorstore.ErrNotFound) {
			holes = append(holes, i)
		}
	}
	return holes, count
}

// TestCheckFreePages: pages that were never anything but free are not stored, and that
// is no damage; any other that is missing is.
func TestCheckFreePages(t *testing.T) {
	for _, pragmas := range [][]string{
		{"page_size=512"}, {"page_size=4096"}, {"page_size=65536"}, {"page_size=2048", "auto_vacuum=incremental"},
	} {
		t.Run(strings.Join(pragmas, ","), func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &Options{Pragmas: append(pragmas, "cache_size=-32000")})
			exec(t, db, table)
			exec(t, db, "begin; insert into t(b) select zeroblob(60000) from generate_series(1, 50); delete from t; commit")
			exec(t, db, "insert into t(b) values (randomblob(200000))")
			holes, count := missing(t, r.actor)
			if len(holes) < 100 {
				t.Fatalf("only %d of %d chunks are missing: this tests nothing", len(holes), count)
			}
			intact(t, db)
			compareFindings(t, checkView(t, r.store, r.actor.ID(), nil), nil)

			// The trunk pages are in use, of course, and so is what holds the row.
			var lost []string
			for i := uint32(1); i < uint32(count); i++ {
				if slices.Contains(holes, i) {
					continue
				}
				key := actorstore.AppendFileChunk(nil, main, i)
				v, err := r.actor.Get(t.Context(), key, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.actor.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				got := checkView(t, r.store, r.actor.ID(), &CheckOptions{FilesOnly: true})
				if len(got) > 1 || len(got) == 1 && !strings.Contains(got[0], missed) {
					t.Errorf("chunk %d: %q", i, got)
				}
				lost = append(lost, got...)
				if err := r.actor.Put(t.Context(), key, v); err != nil {
					t.Fatal(err)
				}
				if len(lost) > 5 {
					break
				}
			}
			if len(lost) == 0 {
				t.Error("no chunk in use was missed")
			}
		})
	}
}

// A pagesReader serves the chunks that a test gives, as every file.
type pagesReader struct {
	CheckReader
	pages map[uint32][]byte
}

func (r pagesReader) ID() actorstore.ID { return actorstore.ID{} }

func (r pagesReader) Page(_ context.Context, key, dst []byte) ([]byte, error) {
	p, ok := r.pages[binary.BigEndian.Uint32(key[len(key)-4:])]
	if !ok {
		return dst, actorstore.ErrNotFound
	}
	return append(dst, p...), nil
}

// lostIn returns which of the holes of a main file mean damage.
func lostIn(t *testing.T, pages map[uint32][]byte, size int64, gaps ...[2]int64) (first, lost int64) {
	t.Helper()
	c := &checker{ctx: t.Context(), r: pagesReader{pages: pages}, yield: func(actorstore.Finding, error) bool { return true }}
	if err := c.holes.reset(c, &keyedFile{tag: main, size: size}, true); err != nil {
		t.Fatal(err)
	}
	for _, g := range gaps {
		if err := c.holes.add(g[0], g[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.holes.finish(); err != nil {
		t.Fatal(err)
	}
	return c.holes.first, c.holes.lost
}

// page1 returns the first chunk of a database.
func page1(pageSize int, trunk uint32) []byte {
	b := make([]byte, chunkSize)
	copy(b, headerMagic)
	binary.BigEndian.PutUint16(b[headerPageSize:], uint16(pageSize>>16|pageSize))
	binary.BigEndian.PutUint32(b[headerFreeList:], trunk)
	return b
}

// trunk returns the first chunk of a trunk page.
func trunk(next uint32, leaves ...uint32) []byte {
	b := make([]byte, chunkSize)
	binary.BigEndian.PutUint32(b, next)
	binary.BigEndian.PutUint32(b[trunkLeaves:], uint32(len(leaves)))
	for i, p := range leaves {
		binary.BigEndian.PutUint32(b[trunkHeader+4*i:], p)
	}
	return b
}

func TestHoles(t *testing.T) {
	const lock = lockByte / chunkSize
	type pages = map[uint32][]byte
	size := int64(lockByte + 1<<20)
	for _, c := range []struct {
		name  string
		pages pages
		gaps  [][2]int64
		first int64
		lost  int64
	}{
		{"lock-byte page", pages{0: page1(4096, 0)}, [][2]int64{{lock, lock + 1}}, -1, 0},
		{"beside the lock-byte page", pages{0: page1(4096, 0)}, [][2]int64{{lock - 1, lock + 2}}, lock - 1, 2},
		{"large lock-byte page", pages{0: page1(65536, 0)}, [][2]int64{{lock, lock + 16}}, -1, 0},
		{"beside the large lock-byte page", pages{0: page1(65536, 0)}, [][2]int64{{lock, lock + 17}}, lock + 16, 1},
		{"lock-byte page of many to a chunk", pages{0: page1(512, 0)}, [][2]int64{{lock, lock + 1}}, lock, 1},
		{"leaves", pages{0: page1(4096, 2), 1: trunk(3, 10, 12), 2: trunk(0, 11)}, [][2]int64{{9, 12}}, -1, 0},
		{"more than leaves", pages{0: page1(4096, 2), 1: trunk(3, 10, 12), 2: trunk(0, 11)}, [][2]int64{{8, 13}}, 8, 2},
		{"leaves of half a chunk", pages{0: page1(2048, 3), 1: trunk(0, 9, 10, 11)}, [][2]int64{{4, 6}}, 5, 1},
		{"leaf in the middle of a large page", pages{0: page1(65536, 2), 16: trunk(0, 3)}, [][2]int64{{34, 35}, {40, 48}}, -1, 0},
		{"circle", pages{0: page1(4096, 2), 1: trunk(3), 2: trunk(4), 3: trunk(3)}, [][2]int64{{9, 10}}, 9, 1},
		{"trunk that is its own next", pages{0: page1(4096, 2), 1: trunk(2, 10)}, [][2]int64{{9, 10}}, -1, 0},
		{"trunk beyond the file", pages{0: page1(4096, 1<<31)}, [][2]int64{{9, 10}}, 9, 1},
		{"trunk that is missing", pages{0: page1(4096, 2)}, [][2]int64{{1, 2}}, 1, 1},
		{"leaves beyond the file and none", pages{0: page1(4096, 2), 1: trunk(0, 0, 1<<32-1, 10)}, [][2]int64{{9, 10}}, -1, 0},
		{"a count of leaves that can't be", pages{0: page1(4096, 2), 1: binary.BigEndian.AppendUint32(make([]byte, 4), 1<<32-1)}, [][2]int64{{9, 10}}, 9, 1},
		{"huge", pages{0: page1(4096, 0)}, [][2]int64{{1, 200_000}}, 1, 199_999},
		{"not SQLite's", pages{0: make([]byte, 4096)}, [][2]int64{{9, 10}}, -1, 0},
		{"no page size", pages{0: page1(1000, 0)}, [][2]int64{{9, 10}}, -1, 0},
		{"not SQLite's, and no beginning", nil, [][2]int64{{0, 10}}, 0, 1},
	} {
		if first, lost := lostIn(t, c.pages, size, c.gaps...); first != c.first || lost != c.lost {
			t.Errorf("%s: %d lost from %d on, want %d from %d", c.name, lost, first, c.lost, c.first)
		}
	}
}

// TestManyHoles: more holes than are remembered, and a trunk page of several chunks.
func TestManyHoles(t *testing.T) {
	pages := map[uint32][]byte{0: page1(65536, 2)}
	var list []byte
	const n = 12_000
	list = binary.BigEndian.AppendUint32(list, 0)
	list = binary.BigEndian.AppendUint32(list, n)
	var gaps [][2]int64
	for i := range uint32(n) {
		list = binary.BigEndian.AppendUint32(list, 100+2*i)
		gaps = append(gaps, [2]int64{int64(99+2*i) * 16, int64(99+2*i)*16 + 3})
	}
	for i, piece := range slices.Collect(slices.Chunk(list, chunkSize)) {
		pages[16+uint32(i)] = piece
	}
	if first, lost := lostIn(t, pages, 1<<32, gaps...); lost != 0 {
		t.Errorf("%d lost from %d on", lost, first)
	}
	gaps = append(gaps, [2]int64{gaps[n-1][1] + 20, gaps[n-1][1] + 21})
	if first, lost := lostIn(t, pages, 1<<32, gaps...); lost != 1 || first != gaps[n][0] {
		t.Errorf("%d lost from %d on, want 1 from %d", lost, first, gaps[n][0])
	}
}

// TestCheckOlder: databases of the older form, whole, half rewritten, and damaged.
func TestCheckOlder(t *testing.T) {
	move := func(a *actorstore.Actor, b *batch.Batch, i uint32) {
		v, err := a.Get(t.Context(), appendNamedChunk(nil, "a.db", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Put(actorstore.AppendFileChunk(nil, main, i), v)
		b.Delete(appendNamedChunk(nil, "a.db", i))
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
			b.Delete(appendNamedChunk(nil, "a.db", 4))
		}, []string{word + "chunks/a.db/4: " + missed}},
		{"half rewritten, chunk too long", func(a *actorstore.Actor, b *batch.Batch) {
			move(a, b, 3)
			b.Put(actorstore.AppendFileChunk(nil, main, 3), make([]byte, 5000))
		}, []string{"sqlite/chunks/main/3: it holds 5000 bytes"}},
		{"half rewritten, beyond the size", func(a *actorstore.Actor, b *batch.Batch) {
			move(a, b, 3)
			b.Put(actorstore.AppendFileChunk(nil, main, 300), nil)
			b.Put(appendNamedChunk(nil, "a.db", 301), nil)
		}, []string{"harmless: " + word + "chunks/a.db/301: " + beyond, "harmless: sqlite/chunks/main/300: " + beyond}},
		{"chunk missing", func(_ *actorstore.Actor, b *batch.Batch) { b.Delete(appendNamedChunk(nil, "a.db", 3)) },
			[]string{word + "chunks/a.db/3: " + missed}},
		{"first chunk missing", func(_ *actorstore.Actor, b *batch.Batch) { b.Delete(appendNamedChunk(nil, "a.db", 0)) },
			[]string{word + "chunks/a.db/0: " + missed}},
		{"chunk too long", func(_ *actorstore.Actor, b *batch.Batch) { b.Put(appendNamedChunk(nil, "a.db", 3), make([]byte, 4097)) },
			[]string{word + "chunks/a.db/3: it holds 4097 bytes"}},
		{"size record damaged", func(_ *actorstore.Actor, b *batch.Batch) { b.Put(appendNamedMeta(nil, "a.db"), []byte{1}) },
			[]string{word + "metadata/a.db: it can't be read: "}},
		{"size record missing", func(_ *actorstore.Actor, b *batch.Batch) { b.Delete(appendNamedMeta(nil, "a.db")) },
			[]string{"harmless: " + word + "chunks/a.db/0: " + sized}},
		{"damaged page", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(appendNamedChunk(nil, "a.db", 3), bytes.Repeat([]byte{1}, chunkSize))
		}, []string{"sqlite: Tree 2 page 4"}},
		{"hot journal", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(appendNamedMeta(nil, "a.db-journal"), appendMeta(nil, 9))
			b.Put(appendNamedChunk(nil, "a.db-journal", 0), []byte("123456789"))
		}, []string{"unfinished, harmless: " + word + "metadata/a.db-journal: a transaction"}},
		{"hot journal, half rewritten", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(appendNamedMeta(nil, "a.db-journal"), appendMeta(nil, 5000))
			b.Put(actorstore.AppendFileChunk(nil, actorstore.FileJournal, 0), bytes.Repeat([]byte{1}, chunkSize))
			b.Put(appendNamedChunk(nil, "a.db-journal", 1), make([]byte, 904))
		}, []string{"unfinished, harmless: " + word + "metadata/a.db-journal: a transaction"}},
		{"hot journal, rewritten", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(actorstore.AppendFileMeta(nil, actorstore.FileJournal), appendMeta(nil, 9))
			b.Put(actorstore.AppendFileChunk(nil, actorstore.FileJournal, 0), []byte("123456789"))
			b.Delete(appendNamedChunk(nil, "a.db", 3))
		}, []string{hot}},
		{"journal rewritten and still there", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(actorstore.AppendFileMeta(nil, actorstore.FileJournal), appendMeta(nil, 0))
			b.Put(appendNamedMeta(nil, "a.db-journal"), appendMeta(nil, 9))
			b.Put(appendNamedChunk(nil, "a.db-journal", 0), []byte("123456789"))
		}, []string{"harmless: " + word + "metadata/a.db-journal: another journal has taken its place"}},
		{"journal that is over", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(appendNamedMeta(nil, "a.db-journal"), appendMeta(nil, 9))
			b.Put(appendNamedChunk(nil, "a.db-journal", 0), make([]byte, 9))
		}, []string{"harmless: " + word + "metadata/a.db-journal: " + over}},
		{"WAL", func(_ *actorstore.Actor, b *batch.Batch) { b.Put(appendNamedMeta(nil, "a.db-wal"), appendMeta(nil, 0)) },
			[]string{word + "metadata/a.db-wal: there is a wal file"}},
		{"a second database", func(_ *actorstore.Actor, b *batch.Batch) {
			b.Put(appendNamedMeta(nil, "b"), appendMeta(nil, 10))
			b.Put(appendNamedChunk(nil, "b", 0), []byte("0123456789"))
		}, nil},
		{"nothing but a name", func(_ *actorstore.Actor, b *batch.Batch) { b.Put(appendNamedChunk(nil, "-journal", 7), nil) },
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
		p.Put(appendNamedMeta(nil, "x"), appendMeta(nil, 10))
		p.Put(appendNamedChunk(nil, "x", 0), []byte("0123456789"))
	})
	compareFindings(t, checkView(t, store, actor.ID(), nil), nil)
	plant(t, actor, func(p *planter) { p.Delete(appendNamedChunk(nil, "x", 0)) })
	compareFindings(t, checkView(t, store, actor.ID(), nil), []string{"sqlite/named/chunks/x/0: " + missed})
}

// TestCheckCrashed crashes cases of TestCrash everywhere. What is left is harmless; when
// it was opened, nothing is left of that.
func TestCheckCrashed(t *testing.T) {
	kinds := map[string]int{}
	for _, c := range crashCases {
		if raceDetector && c.name != "spill and fallback" && c.name != "first transaction" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			tp, acks := c.run(t)
			for n := acks[0].after; n <= tp.len(); n++ {
				where := fmt.Sprintf("after commit %d of %d", n, tp.len())
				for _, line := range checkLeft(t, tp.rebuild(t, nil, n)) {
					kinds[line[:strings.Index(line, ": ")]]++
					if !strings.Contains(line, "harmless: ") {
						t.Errorf("%s: %s", where, line)
					}
				}
				reopened := tp.rebuild(t, nil, n)
				r := openRig(t, reopened, c.limits)
				db, err := Open(t.Context(), r.actor, nil)
				if err != nil {
					t.Fatal(err)
				}
				intact(t, db)
				if err := errors.Join(db.Close(), r.actor.Close(), r.store.Close()); err != nil {
					t.Fatal(err)
				}
				if got := checkLeft(t, reopened); len(got) > 0 {
					t.Errorf("%s, reopened: %q", where, got)
				}
			}
			if got := checkLeft(t, tp.rebuild(t, nil, tp.len())); len(got) > 0 {
				t.Errorf("at the end: %q", got)
			}
		})
	}
	if kinds["harmless"] == 0 || kinds["unfinished, harmless"] == 0 {
		t.Errorf("nothing was left by a crash: %v", kinds)
	}
}

// checkLeft checks everything that the engine has, as nobody has opened it since.
func checkLeft(t *testing.T, eng *tape) []string {
	t.Helper()
	store, err := actorstore.Open(t.Context(), eng, &actorstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	got := findings(t, store.Check(t.Context()))
	id, err := store.Lookup(t.Context(), "lobby")
	if err == nil {
		got = append(got, checkView(t, store, id, nil)...)
	} else if !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

// FuzzCheck plants any value under any key of SQLite's namespace.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{0, 0}, appendMeta(nil, 1<<43), false)
	f.Add([]byte{0, 1}, appendMeta(nil, 1), true)
	f.Add([]byte{1, 0, 0, 0, 0, 0}, page1(512, 3), false)
	f.Add([]byte{1, 0, 0, 0, 0, 1}, trunk(2, 3, 4), true)
	f.Add([]byte{1, 'a', 0, 0, 0, 0, 0}, []byte("x"), false)
	f.Add([]byte{0, 'a'}, appendMeta(nil, 1<<40), true)
	f.Add([]byte{1, 4, 1, 2, 3}, []byte{}, false)
	f.Add([]byte{7}, []byte{}, true)
	f.Fuzz(func(t *testing.T, suffix, value []byte, hole bool) {
		eng := memkv.New()
		defer eng.Close()
		store, err := actorstore.Open(t.Context(), eng, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		a, err := store.Named(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		var b batch.Batch
		b.Put(actorstore.AppendFileMeta(nil, main), appendMeta(nil, 8*chunkSize))
		for i := range uint32(8) {
			if i != 5 || !hole {
				b.Put(actorstore.AppendFileChunk(nil, main, i), page1(4096, 2))
			}
		}
		b.Put(append([]byte{actorstore.NamespaceSQLite}, suffix...), value)
		if err := a.Commit(t.Context(), &b); err != nil {
			return // too long
		}
		got := checkView(t, store, a.ID(), &CheckOptions{FilesOnly: true})
		if len(got) > 3 {
			t.Errorf("one key, and %d findings: %q", len(got), got)
		}
	})
}
