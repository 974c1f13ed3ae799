package vfs_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// openFile opens a database file of the operating system.
func openFile(t *testing.T, image []byte) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.db")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := driver.Open("file:" + filepath.ToSlash(path) + "?vfs=os")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// backup returns the file that SQLite's online backup makes of the database.
func backup(t *testing.T, db *vfs.DB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup.db")
	c, err := sqlite3.Open(db.DSN())
	if err != nil {
		t.Fatal(err)
	}
	err = c.Backup("main", "file:"+filepath.ToSlash(path)+"?vfs=os")
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// masked returns an image without what a backup changes on purpose, so that caches of the target
// notice the change: the change counter, the schema cookie, and the counter and version of the last
// writer.
//
// https://sqlite.org/fileformat2.html#the_database_header
func masked(image []byte) []byte {
	image = bytes.Clone(image)
	if len(image) >= format.HeaderSize {
		clear(image[format.CounterAt : format.CounterAt+4])
		clear(image[40:44])
		clear(image[format.VersionForAt : format.VersionForAt+8])
	}
	return image
}

// An export is byte for byte what SQLite's backup makes.
func TestExportIsBackup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, setup string }{
		{"default", ""},
		{"small pages", "pragma page_size=512"},
		{"large pages", "pragma page_size=65536"},
		{"free pages", ""},
		{"auto_vacuum", "pragma auto_vacuum=full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &vfs.Options{MaxConns: 1})
			exec(t, db, c.setup+"; create table t(a integer primary key, b blob)")
			for range 5 {
				exec(t, db, "with n(i) as (select 1 union all select i+1 from n where i < 200) insert into t(b) select randomblob(i*10) from n")
			}
			if c.name == "free pages" {
				exec(t, db, "delete from t where a % 3 = 0")
			}
			want := backup(t, db)
			var got bytes.Buffer
			n, err := db.Export(t.Context(), &got)
			if err != nil || n != int64(got.Len()) {
				t.Fatalf("%d bytes of %d: %v", n, got.Len(), err)
			}
			if !bytes.Equal(masked(got.Bytes()), masked(want)) {
				t.Errorf("the export has %d bytes, the backup %d, and they differ", got.Len(), len(want))
			}
			image := openFile(t, got.Bytes())
			intact(t, image)
			// A view, which doesn't own the actor, exports the same.
			view, err := r.Store.View(t.Context(), r.Actor.ID())
			if err != nil {
				t.Fatal(err)
			}
			viewed, err := vfs.OpenView(t.Context(), view, nil)
			if err != nil {
				t.Fatal(err)
			}
			var again bytes.Buffer
			_, err = viewed.Export(t.Context(), &again)
			if err := errors.Join(err, viewed.Close(), view.Close()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(masked(again.Bytes()), masked(want)) {
				t.Error("the export of a view differs")
			}
		})
	}
}

// A workingWriter runs a transaction for every Write.
type workingWriter struct {
	bytes.Buffer
	work func(n int)
	n    int
}

func (w *workingWriter) Write(b []byte) (int, error) {
	w.n++
	w.work(w.n)
	return w.Buffer.Write(b)
}

// What is committed while an export goes on is not in it: on the atomic path and
// through the journal, appending, overwriting and truncating.
func TestExportWhileInUse(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &vfs.Options{TxMemory: 1})
			if got := one[string](t, db, "pragma journal_mode="+mode); got != mode {
				t.Skipf("journal_mode %s", got)
			}
			exec(t, db, "create table t(a integer primary key, b blob)")
			exec(t, db, `with n(i) as (select 1 union all select i+1 from n where i < 1500)
				insert into t(b) select randomblob(1000) from n`)
			want := one[string](t, db, "select count(*) || ' ' || total(length(b)) || ' ' || ifnull(max(a), 0) from t")
			w := &workingWriter{work: func(n int) {
				if n > 8 {
					return
				}
				exec(t, db, "update t set b = randomblob(1000) where a % 2 = 0")
				exec(t, db, "insert into t(b) select randomblob(4000) from t where a < 100")
				if n == 3 && mode == "delete" {
					exec(t, db, "delete from t")
					exec(t, db, "vacuum")
				}
			}}
			if _, err := db.Export(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			if w.n < 5 {
				t.Errorf("%d writes", w.n)
			}
			image := openFile(t, w.Bytes())
			intact(t, image)
			if got := one[string](t, image, "select count(*) || ' ' || total(length(b)) || ' ' || ifnull(max(a), 0) from t"); got != want {
				t.Errorf("the export has %s, want %s", got, want)
			}
			if got := one[string](t, db, "select count(*) || ' ' || total(length(b)) || ' ' || ifnull(max(a), 0) from t"); got == want {
				t.Error("nothing was written meanwhile")
			}
			intact(t, db)
		})
	}
}

// A transaction that is under way is not in an export, also when parts of it are
// stored already.
func TestExportUnfinished(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{TxMemory: 1, Pragmas: []string{"cache_size=10"}})
	exec(t, db, "create table t(a integer primary key, b blob)")
	exec(t, db, `with n(i) as (select 1 union all select i+1 from n where i < 1000)
		insert into t(b) select zeroblob(3000) from n`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "update t set b = randomblob(3000)")
	exec(t, tx, "insert into t(b) select randomblob(3000) from t")
	if db.Stats().Spills == 0 {
		t.Fatal("nothing of the transaction is stored")
	}
	var image bytes.Buffer
	if _, err := db.Export(t.Context(), &image); err != nil {
		t.Fatal(err)
	}
	got := openFile(t, image.Bytes())
	intact(t, got)
	if n := one[int](t, got, "select count(*) from t where b = zeroblob(3000)"); n != 1000 {
		t.Errorf("%d rows of the committed state", n)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	intact(t, db)
}

// errFull stands for a disk that is full.
var errFull = errors.New("no room")

type fullWriter struct{ left int }

func (w *fullWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	if w.left -= n; n < len(b) {
		return n, errFull
	}
	return n, nil
}

// An export that ends early says why, and holds nothing afterwards.
func TestExportFails(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	var empty bytes.Buffer
	if n, err := db.Export(t.Context(), &empty); n != 0 || err != nil || empty.Len() != 0 {
		t.Errorf("an empty database: %d bytes, %v", n, err)
	}
	exec(t, db, "create table t as select zeroblob(3000000)")
	if n, err := db.Export(t.Context(), &fullWriter{1_000_000}); n != 1_000_000 || !errors.Is(err, errFull) {
		t.Errorf("%d bytes, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &workingWriter{work: func(n int) {
		if n == 2 {
			cancel()
		}
	}}
	if _, err := db.Export(ctx, w); !errors.Is(err, context.Canceled) || w.n != 2 {
		t.Errorf("%d writes, %v", w.n, err)
	}
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeGet || op.Point == faultkv.BeforeScan || op.Point == faultkv.BeforeEntry {
			return errInjected
		}
		return nil
	})
	if _, err := db.Export(t.Context(), io.Discard); !errors.Is(err, errInjected) {
		t.Errorf("a failing engine: %v", err)
	}
	r.Engine.Hook(nil)
	if err := db.Close(); err != nil {
		t.Errorf("something is still in use: %v", err)
	}
	if _, err := db.Export(t.Context(), io.Discard); !errors.Is(err, vfs.ErrNotMounted) {
		t.Errorf("closed: %v", err)
	}
}

// An export is a reader like others: it keeps a snapshot only as long as it may.
func TestExportTooOld(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{MaxSnapshots: 1})
	exec(t, db, "create table t(a); insert into t select zeroblob(3000000)")
	w := &workingWriter{work: func(int) { exec(t, db, "update t set a = randomblob(10000)") }}
	if n, err := db.Export(t.Context(), w); !errors.Is(err, vfs.ErrSnapshotTooOld) || n != vfs.ExportStep {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := db.Export(t.Context(), io.Discard); err != nil {
		t.Error(err)
	}
}

// A sparseWriter remembers the pages that are not zeros.
type sparseWriter struct {
	size  int64
	pages map[int64]byte
}

func (w *sparseWriter) Write(b []byte) (int, error) {
	zero := make([]byte, chunked.Size)
	for i := 0; i < len(b); i += chunked.Size {
		if page := b[i:min(i+chunked.Size, len(b))]; !bytes.Equal(page, zero[:len(page)]) {
			w.pages[w.size+int64(i)] = page[len(page)-1]
		}
	}
	w.size += int64(len(b))
	return len(b), nil
}

// SQLite never writes the page at 1 GiB, so nothing is stored there.
func TestExportHole(t *testing.T) {
	const lockPage = 1 << 30
	r := newRig(t, batch.Limits{Storage: 2 << 30})
	var b batch.Batch
	page := make([]byte, chunked.Size)
	copy(page, format.Magic)
	put := func(i uint32, last byte) {
		p := bytes.Clone(page)
		p[chunked.Size-1] = last
		b.Put(layout.AppendFileChunk(nil, actorstore.FileMain, i), p)
	}
	put(0, 1)
	clear(page)
	put(lockPage/chunked.Size-1, 2)
	put(lockPage/chunked.Size+1, 3)
	b.Put(layout.AppendFileMeta(nil, actorstore.FileMain), chunked.AppendMeta(nil, lockPage+2*chunked.Size))
	if err := r.Actor.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	db := r.open(t, nil)
	w := &sparseWriter{pages: map[int64]byte{}}
	n, err := db.Export(t.Context(), w)
	if err != nil || n != lockPage+2*chunked.Size || w.size != n {
		t.Fatalf("%d bytes, %v", n, err)
	}
	for at, want := range map[int64]byte{0: 1, lockPage - chunked.Size: 2, lockPage + chunked.Size: 3} {
		if w.pages[at] != want {
			t.Errorf("the page at %d ends in %d, want %d", at, w.pages[at], want)
		}
	}
	if len(w.pages) != 3 {
		t.Errorf("%d pages that are not zeros, want 3", len(w.pages))
	}
}
