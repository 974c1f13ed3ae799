package vfs_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// TestCheckCrashed crashes cases of TestCrash everywhere. What is left is harmless; when
// it was opened, nothing is left of that.
func TestCheckCrashed(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for _, c := range crashCases {
		if testkit.Short() && c.name != "spill and fallback" && c.name != "first transaction" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			tp, acks := c.run(t)
			for n := acks[0].after; n <= tp.Len(); n++ {
				where := fmt.Sprintf("after commit %d of %d", n, tp.Len())
				for _, line := range checkLeft(t, tp.At(t, n)) {
					kinds[line[:strings.Index(line, ": ")]]++
					if !strings.Contains(line, "harmless: ") {
						t.Errorf("%s: %s", where, line)
					}
				}
				reopened := tp.At(t, n)
				r := openRig(t, reopened, c.limits)
				db, err := vfs.Open(t.Context(), r.Actor, nil)
				if err != nil {
					t.Fatal(err)
				}
				intact(t, db)
				if err := errors.Join(db.Close(), r.Actor.Close(), r.Store.Close()); err != nil {
					t.Fatal(err)
				}
				if got := checkLeft(t, reopened); len(got) > 0 {
					t.Errorf("%s, reopened: %q", where, got)
				}
			}
			if got := checkLeft(t, tp.At(t, tp.Len())); len(got) > 0 {
				t.Errorf("at the end: %q", got)
			}
		})
	}
	if kinds["harmless"] == 0 || kinds["unfinished, harmless"] == 0 {
		t.Errorf("nothing was left by a crash: %v", kinds)
	}
}

// checkLeft checks everything in the engine, before any host opens it again.
func checkLeft(t *testing.T, eng *engines.Tape) []string {
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

// TestCheckMoved crashes the rewriting of a database of the older form everywhere.
func TestCheckMoved(t *testing.T) {
	tp := engines.NewTape()
	limits := batch.Limits{Entries: 8}
	r := openRig(t, tp, limits)
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range olderSetup {
		exec(t, db, s)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	rename(t, r.Actor, "a.db")
	from := tp.Len()
	db = r.open(t, nil)
	exec(t, db, "update t set b = 1 where a = 30")
	if tp.Len() < from+5 {
		t.Fatalf("it took only %d commits", tp.Len()-from)
	}
	for n := from; n <= tp.Len(); n++ {
		for _, line := range checkLeft(t, tp.At(t, n)) {
			if !strings.HasPrefix(line, "harmless: ") {
				t.Errorf("after commit %d of %d: %s", n, tp.Len(), line)
			}
		}
	}
	if got := checkLeft(t, tp.At(t, tp.Len())); len(got) > 0 {
		t.Errorf("at the end: %q", got)
	}
}

// FuzzCheck plants any value under any key of SQLite's namespace.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{0, 0}, chunked.AppendMeta(nil, 1<<43), false)
	f.Add([]byte{0, 1}, chunked.AppendMeta(nil, 1), true)
	f.Add([]byte{1, 0, 0, 0, 0, 0}, page1(512, 3), false)
	f.Add([]byte{1, 0, 0, 0, 0, 1}, trunk(2, 3, 4), true)
	f.Add([]byte{1, 'a', 0, 0, 0, 0, 0}, []byte("x"), false)
	f.Add([]byte{0, 'a'}, chunked.AppendMeta(nil, 1<<40), true)
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
		b.Put(layout.AppendFileMeta(nil, main), chunked.AppendMeta(nil, 8*chunked.Size))
		for i := range uint32(8) {
			if i != 5 || !hole {
				b.Put(layout.AppendFileChunk(nil, main, i), page1(4096, 2))
			}
		}
		b.Put(append([]byte{actorstore.NamespaceSQLite}, suffix...), value)
		if err := a.Commit(t.Context(), &b); err != nil {
			return // too long
		}
		got := checkView(t, store, a.ID(), &vfs.CheckOptions{FilesOnly: true})
		if len(got) > 3 {
			t.Errorf("one key, and %d findings: %q", len(got), got)
		}
	})
}

// TestCheckBeforeTruncation: a file that is longer than its header says, as a crash
// between a commit and the truncation behind it leaves it, with pages there that were
// never written.
func TestCheckBeforeTruncation(t *testing.T) {
	for _, shrink := range []string{"vacuum", "pragma incremental_vacuum"} {
		tp := engines.NewTape()
		r := openRig(t, tp, batch.Limits{})
		db := r.open(t, &vfs.Options{Pragmas: []string{"auto_vacuum=incremental", "cache_size=20000"}})
		conn := oneConn(t, db)
		for _, q := range []string{table,
			"begin; insert into t(b) select zeroblob(60000) from generate_series(1, 50); delete from t; commit",
			"insert into t(b) values (randomblob(200000))"} {
			exec(t, conn, q)
		}
		from, size := tp.Len(), one[int](t, conn, "PRAGMA page_count")
		exec(t, conn, shrink)
		if n := one[int](t, conn, "PRAGMA page_count"); n > size/2 || tp.Len() < from+2 {
			t.Fatalf("%s: %d pages of %d are left after %d commits", shrink, n, size, tp.Len()-from)
		}
		for n := from; n <= tp.Len(); n++ {
			left := tp.At(t, n)
			if lines := checkLeft(t, left); len(lines) > 0 {
				t.Errorf("%s, after commit %d of %d: %q", shrink, n-from, tp.Len()-from, lines)
			}
			again := openRig(t, left, batch.Limits{})
			db := again.open(t, nil)
			exec(t, db, "insert into t(b) values (1)")
			if lines := checkLeft(t, left); len(lines) > 0 {
				t.Errorf("%s, after commit %d of %d and a write: %q", shrink, n-from, tp.Len()-from, lines)
			}
		}
	}
}

// page1 returns the first chunk of a database.
func page1(pageSize int, trunk uint32) []byte {
	b := make([]byte, chunked.Size)
	copy(b, format.Magic)
	binary.BigEndian.PutUint16(b[format.PageSizeAt:], uint16(pageSize>>16|pageSize))
	binary.BigEndian.PutUint32(b[format.FreeListAt:], trunk)
	return b
}

// trunk returns the first chunk of a trunk page.
func trunk(next uint32, leaves ...uint32) []byte {
	b := make([]byte, chunked.Size)
	binary.BigEndian.PutUint32(b, next)
	binary.BigEndian.PutUint32(b[4:], uint32(len(leaves)))
	for i, p := range leaves {
		binary.BigEndian.PutUint32(b[8+4*i:], p)
	}
	return b
}
