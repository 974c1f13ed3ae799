package vfs_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// findings returns what a check yields, each on a line that doesn't name the actor.
func findings(t testing.TB, all iter.Seq2[actorstore.Finding, error]) (lines []string) {
	t.Helper()
	for f, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		if f.Unfinished && !f.Harmless {
			t.Errorf("unfinished and not harmless: %v", f)
		}
		f.Actor = actorstore.ID{}
		line := f.String()
		if f.Unfinished {
			line = "unfinished, " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// checkView checks the actor as the store's newest state shows it.
func checkView(t testing.TB, store *actorstore.Store, id actorstore.ID, opts *vfs.CheckOptions) []string {
	t.Helper()
	v, err := store.View(t.Context(), id)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return nil // nothing was committed yet
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}()
	return findings(t, vfs.Check(t.Context(), v, opts))
}

// compareFindings holds what was found against how each finding begins.
func compareFindings(t testing.TB, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// A planter stages damage.
type planter struct {
	*batch.Batch
	size int64 // of the main file
}

func (p *planter) meta(tag actorstore.FileTag, size int64) {
	p.Put(layout.AppendFileMeta(nil, tag), chunked.AppendMeta(nil, size))
}

func (p *planter) chunk(tag actorstore.FileTag, i uint32, n int, with byte) {
	p.Put(layout.AppendFileChunk(nil, tag, i), bytes.Repeat([]byte{with}, n))
}

func (p *planter) lose(i uint32) {
	p.Delete(layout.AppendFileChunk(nil, actorstore.FileMain, i))
}

func (p *planter) loseAll() {
	p.Delete(layout.AppendFileMeta(nil, actorstore.FileMain))
	p.DeleteRange(layout.FileChunks(actorstore.FileMain, 0))
}

const (
	main = actorstore.FileMain
	jrnl = actorstore.FileJournal
	wal  = actorstore.FileWAL
	shm  = actorstore.FileSHM

	over   = "the journal is over; the next owner removes it"
	hot    = "unfinished, harmless: sqlite/metadata/journal: a transaction was not finished; the next owner rolls it back"
	sized  = "chunks without a size record"
	missed = "it is missing below the size of "
	beyond = "it lies beyond the size of "
)

var plants = []struct {
	name  string
	plant func(p *planter)
	want  []string
}{
	{"nothing", func(*planter) {}, nil},

	{"size record of bad BARE", func(p *planter) { p.Put(layout.AppendFileMeta(nil, main), []byte{1, 0, 7}) },
		[]string{"sqlite/metadata/main: it can't be read: vfs: file metadata: "}},
	{"size record of no bytes", func(p *planter) { p.Put(layout.AppendFileMeta(nil, main), nil) },
		[]string{"sqlite/metadata/main: it can't be read: vfs: file metadata: "}},
	{"size record with bytes behind", func(p *planter) {
		p.Put(layout.AppendFileMeta(nil, main), append(chunked.AppendMeta(nil, 4096), 0))
	},
		[]string{"sqlite/metadata/main: it can't be read: vfs: file metadata: "}},
	{"size record of version 0", func(p *planter) { p.Put(layout.AppendFileMeta(nil, main), make([]byte, chunked.MetaSize)) },
		[]string{"sqlite/metadata/main: it can't be read: vfs: file metadata of version 0"}},
	{"size record of a newer version", func(p *planter) { p.Put(layout.AppendFileMeta(nil, main), []byte{2, 0}) },
		[]string{"sqlite/metadata/main: it is of version 2, known are versions up to 1"}},
	{"impossible size", func(p *planter) { p.meta(main, math.MaxInt64) },
		[]string{"sqlite/metadata/main: it can't be read: vfs: file metadata: size 9223372036854775807 is over"}},
	{"impossible size of the journal", func(p *planter) { p.meta(jrnl, chunked.MaxFileSize+1) },
		[]string{"sqlite/metadata/journal: it can't be read: vfs: file metadata: size 17592186044417 is over"}},

	{"chunk beyond the size", func(p *planter) { p.chunk(main, uint32(chunked.Count(p.size)), 10, 1) },
		[]string{"harmless: sqlite/chunks/main/"}},
	{"chunks far beyond the size", func(p *planter) { p.chunk(main, 1e6, 10, 1); p.chunk(main, math.MaxUint32, 5000, 1) },
		[]string{"harmless: sqlite/chunks/main/1000000: " + beyond}},
	{"chunk too long", func(p *planter) { p.chunk(main, 3, 4097, 1) },
		[]string{"sqlite/chunks/main/3: it holds 4097 bytes, a chunk has at most 4096"}},
	{"chunk missing", func(p *planter) { p.lose(3) }, []string{"sqlite/chunks/main/3: " + missed}},
	{"chunks missing", func(p *planter) { p.lose(3); p.lose(4); p.lose(9) }, []string{"sqlite/chunks/main/3: " + missed}},
	{"first chunk missing", func(p *planter) { p.lose(0) }, []string{"sqlite/chunks/main/0: " + missed}},
	{"first chunks missing", func(p *planter) { p.lose(0); p.lose(1) }, []string{"sqlite/chunks/main/0: " + missed}},
	{"last chunk missing", func(p *planter) { p.lose(uint32(chunked.Count(p.size) - 1)) }, []string{"sqlite/chunks/main/"}},
	{"all chunks missing", func(p *planter) { p.DeleteRange(layout.FileChunks(main, 0)) }, []string{"sqlite/chunks/main/0: " + missed}},
	{"size too large", func(p *planter) { p.meta(main, 1<<43) }, []string{"sqlite/chunks/main/"}},
	{"size as large as can be", func(p *planter) { p.meta(main, chunked.MaxFileSize) }, []string{"sqlite/chunks/main/"}},

	{"chunks without a size record", func(p *planter) { p.Delete(layout.AppendFileMeta(nil, main)) },
		[]string{"sqlite/chunks/main/0: " + sized}},
	{"nothing of the database", func(p *planter) { p.loseAll() }, nil},
	{"journal's chunks without a size record", func(p *planter) { p.chunk(jrnl, 0, 100, 1) },
		[]string{"harmless: sqlite/chunks/journal/0: " + sized}},

	{"emptied journal", func(p *planter) { p.meta(jrnl, 0) }, nil},
	{"emptied journal with a chunk", func(p *planter) { p.meta(jrnl, 0); p.chunk(jrnl, 0, 100, 1) },
		[]string{"harmless: sqlite/chunks/journal/0: " + beyond}},
	{"journal with a dead header", func(p *planter) { p.meta(jrnl, 100); p.chunk(jrnl, 0, 100, 0) },
		[]string{"harmless: sqlite/metadata/journal: " + over}},
	{"journal of an empty database", func(p *planter) { p.loseAll(); p.meta(jrnl, 100); p.chunk(jrnl, 0, 100, 1) },
		[]string{"harmless: sqlite/metadata/journal: " + over}},
	{"journal of a database without a size record", func(p *planter) {
		p.Delete(layout.AppendFileMeta(nil, main))
		p.meta(jrnl, 100)
		p.chunk(jrnl, 0, 100, 1)
	}, []string{"sqlite/chunks/main/0: " + sized, "harmless: sqlite/metadata/journal: " + over}},
	{"hot journal", func(p *planter) { p.meta(jrnl, 100); p.chunk(jrnl, 0, 100, 1) }, []string{hot}},
	{"hot journal, chunk missing in the main file", func(p *planter) { p.meta(jrnl, 100); p.chunk(jrnl, 0, 100, 1); p.lose(3) }, []string{hot}},
	{"hot journal, chunk beyond the size", func(p *planter) { p.meta(jrnl, 100); p.chunk(jrnl, 0, 100, 1); p.chunk(main, 1e6, 1, 1) },
		[]string{"harmless: sqlite/chunks/main/1000000: " + beyond, hot}},
	{"hot journal, damaged page", func(p *planter) { p.meta(jrnl, 100); p.chunk(jrnl, 0, 100, 1); p.chunk(main, 3, 4096, 1) }, []string{hot}},
	{"hot journal with a chunk missing", func(p *planter) { p.meta(jrnl, 9000); p.chunk(jrnl, 0, 4096, 1); p.chunk(jrnl, 2, 808, 1) },
		[]string{hot, "sqlite/chunks/journal/1: " + missed}},
	{"hot journal with a chunk too long", func(p *planter) { p.meta(jrnl, 5000); p.chunk(jrnl, 0, 4999, 1); p.chunk(jrnl, 1, 904, 1) },
		[]string{hot, "sqlite/chunks/journal/0: it holds 4999 bytes"}},

	{"log of nothing", func(p *planter) { p.meta(wal, 5); p.chunk(wal, 0, 5, 1) }, nil},
	{"log of no bytes", func(p *planter) { p.meta(wal, 0) }, nil},
	{"log with a chunk missing", func(p *planter) { p.meta(wal, 9000); p.chunk(wal, 0, 4096, 1); p.chunk(wal, 2, 808, 1) },
		[]string{"sqlite/chunks/wal/1: " + missed}},
	{"log beyond its size", func(p *planter) { p.meta(wal, 5); p.chunk(wal, 0, 5, 1); p.chunk(wal, 7, 5, 1) },
		[]string{"harmless: sqlite/chunks/wal/7: " + beyond}},
	{"log without a size record", func(p *planter) { p.chunk(wal, 0, 5, 1) },
		[]string{"harmless: sqlite/chunks/wal/0: chunks without a size record"}},
	{"log with a broken size record", func(p *planter) { p.Put(layout.AppendFileMeta(nil, wal), []byte{1, 0, 1}) },
		[]string{"sqlite/metadata/wal: it can't be read"}},
	{"WAL index without a size record", func(p *planter) { p.chunk(shm, 0, 5, 1); p.chunk(shm, 7, 5, 1) },
		[]string{"sqlite/metadata/shm: there is a shm file, which nothing here reads or writes"}},

	{"damaged page", func(p *planter) { p.chunk(main, 3, 4096, 1) }, []string{"sqlite: Tree 2 page 4: btreeInitPage() returns error code 11"}},
	{"damaged schema", func(p *planter) {
		page := make([]byte, 4096)
		copy(page, format.Magic)
		page[16], page[18], page[19], page[31] = 16, 1, 1, 32
		p.Put(layout.AppendFileChunk(nil, main, 0), page)
	}, []string{"sqlite: SQLite refuses it: sqlite3: "}},
	{"encrypted", func(p *planter) { p.chunk(main, 0, 4096, 1); p.lose(3) }, nil},
	{"encrypted without a beginning", func(p *planter) { p.lose(0) }, []string{"sqlite/chunks/main/0: " + missed}},
}

// plantedStore returns a store of two actors with a database each, and the second.
func plantedStore(t testing.TB, now func() time.Time) (*actorstore.Store, *actorstore.Actor, kv.Engine) {
	t.Helper()
	eng := memkv.New()
	store, err := actorstore.Open(t.Context(), eng, &actorstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	var actor *actorstore.Actor
	for _, name := range []string{"one", "two"} {
		if actor, err = store.Named(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
		db, err := vfs.Open(t.Context(), actor, nil)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, table)
		exec(t, db, "insert into t(b) select randomblob(3000) from generate_series(1, 30)")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(store.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	})
	return store, actor, eng
}

// plant commits what the function stages.
func plant(t testing.TB, a *actorstore.Actor, f func(p *planter)) {
	t.Helper()
	record, err := a.Get(t.Context(), layout.AppendFileMeta(nil, main), nil)
	if err != nil {
		t.Fatal(err)
	}
	size, err := chunked.ParseMeta(record)
	if err != nil {
		t.Fatal(err)
	}
	var b batch.Batch
	f(&planter{&b, size})
	if err := a.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFiles(t *testing.T) {
	for _, c := range plants {
		t.Run(c.name, func(t *testing.T) {
			store, actor, _ := plantedStore(t, nil)
			plant(t, actor, c.plant)
			compareFindings(t, checkView(t, store, actor.ID(), nil), c.want)
			one := actorstore.IDFromName("one")
			compareFindings(t, checkView(t, store, one, nil), nil)
			for f, err := range store.Check(t.Context()) {
				t.Errorf("the planting itself is damage: %v, %v", f, err)
			}
		})
	}
}

// TestCheckFilesOnly: Check leaves out what only SQLite can find, if the options say so or if a
// snapshot isn't a view.
func TestCheckFilesOnly(t *testing.T) {
	store, actor, _ := plantedStore(t, nil)
	plant(t, actor, func(p *planter) { p.chunk(main, 3, 4096, 1) })
	compareFindings(t, checkView(t, store, actor.ID(), &vfs.CheckOptions{FilesOnly: true}), nil)
	snap, err := actor.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	compareFindings(t, findings(t, vfs.Check(t.Context(), snap, nil)), nil)
}

// TestCheckLostRecord: the main file's record is stored before anything else of it, so
// its loss is known for what it is, and nothing is removed.
func TestCheckLostRecord(t *testing.T) {
	store, actor, _ := plantedStore(t, nil)
	plant(t, actor, func(p *planter) { p.Delete(layout.AppendFileMeta(nil, main)) })
	compareFindings(t, checkView(t, store, actor.ID(), nil),
		[]string{"sqlite/chunks/main/0: chunks without a size record, 32 in all: the record is lost"})
	used := actor.Used()
	if _, err := vfs.Open(t.Context(), actor, nil); !errors.Is(err, actorstore.ErrCorrupt) || actor.Used() != used {
		t.Errorf("opening: %v; %d bytes used of %d", err, actor.Used(), used)
	}
}

// TestCheckDamagedRows: what actorstore finds is not found again, and SQLite doesn't
// look then.
func TestCheckDamagedRows(t *testing.T) {
	for _, key := range [][]byte{
		layout.AppendFileChunk(nil, main, 3), layout.AppendFileMeta(nil, main), layout.AppendFileChunk(nil, main, 0),
	} {
		store, actor, eng := plantedStore(t, nil)
		var row []byte // METADATA is the last row of its key
		for e, err := range eng.Scan(t.Context(), kv.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			wrapped := append(append([]byte{1}, bytes.ReplaceAll(key, []byte{0}, []byte{0, 0xff})...), 0, 0)
			if bytes.Contains(e.Key, wrapped) && bytes.Contains(e.Key, actorID(actor.ID())) {
				row = bytes.Clone(e.Key)
			}
		}
		if err := eng.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Clear(row)}}); err != nil {
			t.Fatal(err)
		}
		compareFindings(t, checkView(t, store, actor.ID(), nil), nil)
		compareFindings(t, findings(t, store.Check(t.Context())), []string{actorstore.Describe(key) + ": METADATA is missing"})
	}
}

func actorID(id actorstore.ID) []byte { return id.UUID[:] }

// A failingReader fails after a number of reads.
type failingReader struct {
	*actorstore.Snapshot
	left int
}

var errDisk = errors.New("disk")

func (r *failingReader) fails() bool { r.left--; return r.left < 0 }

func (r *failingReader) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if r.fails() {
		return dst, errDisk
	}
	return r.Snapshot.Get(ctx, key, dst)
}

func (r *failingReader) Page(ctx context.Context, key, dst []byte) ([]byte, error) {
	if r.fails() {
		return dst, errDisk
	}
	return r.Snapshot.Page(ctx, key, dst)
}

func (r *failingReader) Survey(ctx context.Context, start, end []byte) iter.Seq2[actorstore.Entry, error] {
	return func(yield func(actorstore.Entry, error) bool) {
		for e, err := range r.Snapshot.Survey(ctx, start, end) {
			if r.fails() {
				e, err = actorstore.Entry{}, errDisk
			}
			if !yield(e, err) || err != nil && e.Key == nil {
				return
			}
		}
	}
}

// TestCheckFails: an error of the store at any read ends the check with that error, and a caller
// that stops early gets nothing more.
func TestCheckFails(t *testing.T) {
	_, actor, _ := plantedStore(t, nil)
	plant(t, actor, func(p *planter) {
		p.chunk(main, 1, 5000, 1)
		p.chunk(main, 1e6, 1, 1)
		p.lose(3)
		p.chunk(jrnl, 0, 1, 1)
		p.chunk(shm, 0, 1, 1)
		p.Put(layout.AppendNamedFileMeta(nil, "a-journal"), chunked.AppendMeta(nil, 7))
		p.Put(layout.AppendNamedFileChunk(nil, "b", 1), nil)
	})
	snap, err := actor.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	all := len(findings(t, vfs.Check(t.Context(), snap, nil)))
	if all != 7 {
		t.Errorf("%d findings", all)
	}
	for n := 0; ; n++ {
		r := &failingReader{snap, n}
		var failed error
		for _, err := range vfs.Check(t.Context(), r, nil) {
			if failed != nil {
				t.Fatalf("after %d reads: it goes on after an error", n)
			}
			failed = err
		}
		if r.left >= 0 {
			if n < 40 || failed != nil {
				t.Errorf("%d reads, %v", n, failed)
			}
			break
		}
		if !errors.Is(failed, errDisk) {
			t.Fatalf("after %d reads: %v", n, failed)
		}
	}
	for stop := range all {
		n := 0
		for range vfs.Check(t.Context(), snap, nil) {
			if n++; n > stop {
				break
			}
		}
		if n != stop+1 {
			t.Errorf("%d findings, want %d", n, stop+1)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for f, err := range vfs.Check(gone, snap, nil) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("no context: %v, %v", f, err)
		}
	}
}
