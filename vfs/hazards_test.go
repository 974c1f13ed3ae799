package vfs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// What other SQLite VFSes on key-value stores got wrong, one by one. The list, with
// the tests of the others, is in docs/durability.md.

// TestBatchBounds: a transaction is one engine commit, or, where that may hold one
// sub-batch, a few that are each within the limits.
func TestBatchBounds(t *testing.T) {
	limits := batch.DefaultLimits()
	for _, mode := range []struct{ atomic, most int }{{envlimits.Unlimited, 1}, {1, 4}} {
		limits.AtomicBatches = mode.atomic
		for pages := 124; pages <= 130; pages++ {
			for _, grows := range []bool{false, true} {
				commits, entries := writePages(t, limits, pages, grows)
				size := 0
				if grows {
					size = 1
				}
				if want := pages + size; mode.atomic != 1 && (len(commits) != 1 || entries != want) {
					t.Errorf("%d pages, grows %v: %d commits of %d entries, want one of %d", pages, grows, len(commits), entries, want)
				}
				if len(commits) > mode.most {
					t.Errorf("%d pages, grows %v: %d commits", pages, grows, len(commits))
				}
				for i, n := range commits {
					if mode.atomic == 1 && n > limits.Entries {
						t.Errorf("%d pages, grows %v: commit %d has %d entries", pages, grows, i, n)
					}
				}
			}
		}
	}
}

// writePages commits a transaction that changes so many pages of a database, or
// appends them, and returns how many entries each engine commit had, and in all.
func writePages(t *testing.T, limits batch.Limits, pages int, appends bool) (commits []int, entries int) {
	t.Helper()
	r := newRig(t, limits)
	db := newRigDatabase(t, r)
	h := db.Open(t.Context(), false)
	page := bytes.Repeat([]byte{1}, chunked.Size)
	copy(page, format.Magic)
	transact := func(from int) error {
		err := errors.Join(h.Lock(sqlitevfs.LOCK_SHARED), h.Lock(sqlitevfs.LOCK_RESERVED),
			h.Lock(sqlitevfs.LOCK_EXCLUSIVE), h.BeginAtomicWrite())
		for i := range pages {
			_, werr := h.WriteAt(page, int64(from+i)*chunked.Size)
			err = errors.Join(err, werr)
		}
		if err = errors.Join(err, h.CommitAtomicWrite()); errors.Is(err, sqlite3.IOERR_COMMIT_ATOMIC) {
			// SQLite would go on with a journal; the pages are the same.
			return errors.Join(h.RollbackAtomicWrite(), h.Unlock(sqlitevfs.LOCK_NONE), sqlite3.IOERR_COMMIT_ATOMIC)
		}
		return errors.Join(err, h.CommitPhaseTwo(), h.Unlock(sqlitevfs.LOCK_NONE))
	}
	if err := transact(0); err != nil {
		t.Fatal(err)
	}
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			// Two rows for each page and for the size record, and one for the head.
			commits = append(commits, (len(op.Commit.Ops)-1)/2)
			entries += (len(op.Commit.Ops) - 1) / 2
		}
		return nil
	})
	from := 0
	if appends {
		from = pages
	}
	if err := transact(from); err != nil && (limits.AtomicBatches != 1 || !errors.Is(err, sqlite3.IOERR_COMMIT_ATOMIC)) {
		t.Fatal(err)
	}
	r.Engine.Hook(nil)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return commits, entries
}

// newRigDatabase loads the database of r's actor without SQLite.
func newRigDatabase(t *testing.T, r *fixture) vfs.Database {
	t.Helper()
	db, err := vfs.Load(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestSlowRead: a read is so slow that a writer overwrites the page meanwhile. It returns the old
// page, and only to the reader that asked for it.
func TestSlowRead(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"cache_size=10"}})
	reader, writer := oneConn(t, db), oneConn(t, db)
	exec(t, writer, table)
	exec(t, writer, "insert into t(b) select 'old' || zeroblob(1500) from generate_series(1, 80)")
	exec(t, reader, "begin deferred")
	one[int](t, reader, "select count(*) from t") // the view is chosen, and the last pages are in the cache
	reached, resume := make(chan struct{}), make(chan struct{})
	paused := false
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeGet && !paused {
			paused = true
			close(reached)
			<-resume
		}
		return nil
	})
	got := make(chan string)
	go func() {
		var s string
		if err := reader.QueryRowContext(context.WithoutCancel(t.Context()), "select substr(b, 1, 3) from t where a = 1").Scan(&s); err != nil {
			s = err.Error()
		}
		got <- s
	}()
	<-reached
	exec(t, writer, "update t set b = 'new'")
	exec(t, writer, "vacuum")
	close(resume)
	if s := <-got; s != "old" {
		t.Errorf("the slow read yields %q", s)
	}
	exec(t, reader, "commit")
	if s := one[string](t, reader, "select b from t where a = 1"); s != "new" {
		t.Errorf("the next read yields %q", s)
	}
	exec(t, writer, "insert into t(b) select zeroblob(1500) from generate_series(1, 80)")
	intact(t, reader)
	if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
		t.Errorf("the actor believes %d bytes are used, its keys hold %d", used, counted)
	}
}

// TestStaleSize: the size in the header counts only if the two counters agree; what
// wrote the file last may not have known of it.
//
// https://sqlite.org/fileformat2.html#in_header_database_size
func TestStaleSize(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, table)
	exec(t, db, fill)
	exec(t, db, "create index i on t(b)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	first := layout.AppendFileChunk(nil, actorstore.FileMain, 0)
	page, err := r.Actor.Get(t.Context(), first, nil)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(page[28:], binary.BigEndian.Uint32(page[28:])-4)
	page[format.CounterAt], page[format.VersionForAt] = 9, 5
	if err := r.Actor.Put(t.Context(), first, page); err != nil {
		t.Fatal(err)
	}
	db = r.open(t, nil)
	a, b := oneConn(t, db), oneConn(t, db)
	for range 3 {
		intact(t, a)
		exec(t, b, fill)
		intact(t, b)
	}
}

// TestLockBytePage: the page at 1 GiB, on which SQLite takes its locks in files, is
// never written: the chunk is a hole, and what lies around it is found again.
//
// https://sqlite.org/fileformat2.html#the_lock_byte_page
func TestLockBytePage(t *testing.T) {
	const lockChunk = 1 << 30 / chunked.Size
	limits := batch.DefaultLimits()
	limits.Storage = 4 << 30
	r := newRig(t, limits)
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, table)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// A database of nearly 1 GiB, most of which is holes.
	const pages = lockChunk - 8
	first := layout.AppendFileChunk(nil, actorstore.FileMain, 0)
	page, err := r.Actor.Get(t.Context(), first, nil)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(page[28:], pages)
	copy(page[format.VersionForAt:format.VersionForAt+4], page[format.CounterAt:])
	var b batch.Batch
	b.Put(first, page)
	b.Put(layout.AppendFileMeta(nil, actorstore.FileMain), chunked.AppendMeta(nil, pages*chunked.Size))
	if err := r.Actor.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	db = r.open(t, nil)
	exec(t, db, "insert into t(b) select hex(zeroblob(1500)) || char(96 + value) from generate_series(1, 20)")
	if n := one[int](t, db, "PRAGMA page_count"); n <= lockChunk+4 {
		t.Fatalf("%d pages: the file does not reach over the lock-byte page", n)
	}
	if _, err := r.Actor.Get(t.Context(), layout.AppendFileChunk(nil, actorstore.FileMain, lockChunk), nil); !errors.Is(err, actorstore.ErrNotFound) {
		t.Errorf("the lock-byte page is stored: %v", err)
	}
	want := "abcdefghijklmnopqrst"
	query := "select group_concat(substr(b, 3001), '') from (select b from t order by a)"
	if got := one[string](t, db, query); got != want {
		t.Errorf("got %q", got)
	}
	again := newRigDatabase(t, r).Open(t.Context(), true)
	hole := bytes.Repeat([]byte{1}, chunked.Size)
	if _, err := again.ReadAt(hole, lockChunk*chunked.Size); err != nil || strings.Trim(string(hole), "\x00") != "" {
		t.Errorf("the lock-byte page doesn't read as zeros: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestDelete: what isn't there can't be deleted, the main file never is, and the
// end of the journal is a transaction's.
func TestDelete(t *testing.T) {
	r := newRig(t, oneBatch)
	v := vfs.New(nil)
	if err := v.Mount(t.Context(), "x", r.Actor); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "x-journal", "x-wal", "y", "y-journal", ""} {
		if err := (vfs.Files{VFS: v}).Delete(name, true); !errors.Is(err, sqlite3.IOERR_DELETE_NOENT) && name != "y-journal" {
			t.Errorf("deleting %q: %v", name, err)
		}
	}
	if err := (vfs.Files{VFS: v}).Delete("y-journal", true); err == nil {
		t.Error("the journal of an unknown database could be deleted")
	}
	if err := v.Unmount("x"); err != nil {
		t.Fatal(err)
	}
	// The commit point is the one durable commit, and has the metadata key in front.
	db := r.open(t, nil)
	exec(t, db, table)
	exec(t, db, fill)
	durable := 0
	meta := layout.AppendFileMeta(nil, actorstore.FileJournal)
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.AfterCommit && op.Commit.Durability == 0 {
			durable++
			if _, err := r.Actor.Get(t.Context(), meta, nil); !errors.Is(err, actorstore.ErrNotFound) {
				return fmt.Errorf("the journal is still there: %w", err)
			}
		}
		return nil
	})
	exec(t, db, "update t set b = randomblob(1500)")
	r.Engine.Hook(nil)
	if durable != 1 || db.Stats().JournalCommits != 1 {
		t.Errorf("%d durable commits, %+v", durable, db.Stats())
	}
}

// TestCharacteristics: no more is promised to SQLite than the store keeps.
func TestCharacteristics(t *testing.T) {
	r := newRig(t, batch.Limits{})
	h := newRigDatabase(t, r).Open(t.Context(), false)
	want := sqlitevfs.IOCAP_POWERSAFE_OVERWRITE | sqlitevfs.IOCAP_SAFE_APPEND |
		sqlitevfs.IOCAP_SUBPAGE_READ | sqlitevfs.IOCAP_BATCH_ATOMIC
	if got := h.DeviceCharacteristics(); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
	if got := h.SectorSize(); got != chunked.Size {
		t.Errorf("a sector has %d bytes", got)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseNeverCommits: what was not committed when a connection ended is gone,
// whether it was in memory, spilled, or in an atomic write.
func TestCloseNeverCommits(t *testing.T) {
	for _, cache := range []string{"cache_size=2000", "cache_size=5"} {
		r := newRig(t, oneBatch)
		db := r.open(t, &vfs.Options{Pragmas: []string{cache}})
		exec(t, db, table)
		exec(t, db, fill)
		want := contentOf(t, db)
		conn, err := sqlite3.Open(db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Exec("PRAGMA " + cache + "; begin immediate; update t set b = randomblob(1500)"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if got := contentOf(t, db); got != want {
			t.Errorf("%s: closing left %.60s", cache, got)
		}
		intact(t, db)
		exec(t, db, "update t set b = 'next'")
	}
}

// TestSynchronous: from FULL on a transaction is on stable storage when it is
// acknowledged, on every path. Below, what is left after a crash is the state after
// some transaction, and DB.Durable makes sure of the last one.
func TestSynchronous(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"off", "normal", "full", "extra"} {
		for name, limits := range map[string]batch.Limits{"atomic": {}, "journal": oneBatch} {
			for _, mode := range []string{"delete", "truncate", "persist", "memory"} {
				t.Run(level+"/"+name+"/"+mode, func(t *testing.T) { testSynchronous(t, level, mode, limits) })
			}
		}
	}
}

func testSynchronous(t *testing.T, level, mode string, limits batch.Limits) {
	tp := engines.NewTape()
	r := openRig(t, tp, limits)
	db := r.open(t, &vfs.Options{Pragmas: []string{"synchronous=" + level, "journal_mode=" + mode, "cache_size=20"}})
	conn := oneConn(t, db)
	strict := level == "full" || level == "extra"
	states := []string{contentOf(t, conn)}
	for _, q := range []string{table, fill, "update t set b = randomblob(1500)", "insert into t(b) values ('one')", "delete from t where a > 20", "vacuum"} {
		before := tp.Durable()
		exec(t, conn, q)
		states = append(states, contentOf(t, conn))
		last := states[len(states)-1:]
		switch {
		case strict:
			checkState(t, tp.At(t, tp.Durable()), limits, last, q)
			continue
		case tp.Durable() != before && (mode != "memory" || limits.AtomicBatches == 0):
			t.Errorf("%s: waited for stable storage", q)
		}
		if mode != "memory" { // which is stored in parts where an atomic commit can't hold it
			step := testkit.Pick(23, 1, 1)
			for n := before; n <= tp.Len(); n += step {
				checkState(t, tp.At(t, n), limits, states, fmt.Sprintf("%s: after commit %d", q, n))
			}
		}
		if err := db.Durable(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkState(t, tp.At(t, tp.Durable()), limits, last, q+", made durable")
	}
	r2 := openRig(t, engines.NewTape(), limits)
	if err := r2.open(t, nil).Durable(t.Context()); err != nil {
		t.Errorf("with nothing to wait for: %v", err)
	}
}

// TestSynchronousInTransaction: SQLite refuses the PRAGMA there, so it changes nothing.
func TestSynchronousInTransaction(t *testing.T) {
	r := newRig(t, batch.Limits{})
	conn := oneConn(t, r.open(t, nil))
	exec(t, conn, table)
	exec(t, conn, "begin")
	if _, err := conn.ExecContext(t.Context(), "pragma synchronous=off"); err == nil {
		t.Error("SQLite accepts the PRAGMA in a transaction")
	}
	r.Engine.Reset()
	exec(t, conn, "insert into t(b) values (1); commit")
	if got := r.Engine.Counts(); got.Durable != 1 {
		t.Errorf("%+v, want a durable commit", got)
	}
}

// TestCommitAtomicRefused: only what is too large is left to the journal.
func TestCommitAtomicRefused(t *testing.T) {
	for name, refuse := range map[string]func(r *fixture){
		"quota":   func(*fixture) {},
		"failure": func(r *fixture) { r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit}) },
		"unknown": func(r *fixture) { r.Engine.Fail(faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome}) },
	} {
		limits := batch.DefaultLimits()
		limits.AtomicBatches = envlimits.Unlimited
		pages := 4
		if limits.Storage = 100_000; name == "quota" {
			pages = 40
		}
		r := newRig(t, limits)
		h := newRigDatabase(t, r).Open(t.Context(), false)
		err := errors.Join(h.Lock(sqlitevfs.LOCK_SHARED), h.Lock(sqlitevfs.LOCK_RESERVED), h.BeginAtomicWrite())
		for i := range int64(pages) {
			_, werr := h.WriteAt(bytes.Repeat([]byte{1}, chunked.Size), i*chunked.Size)
			err = errors.Join(err, werr)
		}
		if err != nil {
			t.Fatal(err)
		}
		refuse(r)
		if err := h.CommitAtomicWrite(); err == nil || err == error(sqlite3.IOERR_COMMIT_ATOMIC) {
			t.Errorf("%s: SQLite is told %v", name, err)
		}
		r.Engine.Heal()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNULText: text is bytes to this package, as is what SQLite makes of a NUL in it.
func TestNULText(t *testing.T) {
	const text = "before\x00behind"
	r := newRig(t, batch.Limits{})
	db := r.open(t, nil)
	exec(t, db, "create table t(a text)")
	exec(t, db, "insert into t values (?)", text)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r.Reopen(t, batch.Limits{})
	db = r.open(t, nil)
	if got := one[string](t, db, "select a from t"); got != text {
		t.Errorf("got %q", got)
	}
	if got := one[string](t, db, "select hex(a) from t where a = ?", text); got != fmt.Sprintf("%X", text) {
		t.Errorf("got %s", got)
	}
	intact(t, db)
}

// TestErrorCodes: which code SQLite gets for each error. SQLITE_IOERR_NOMEM would end the process,
// and after IOERR_COMMIT_ATOMIC SQLite would try the transaction again.
func TestErrorCodes(t *testing.T) {
	const op = sqlite3.IOERR_WRITE
	quota, large := &actorstore.QuotaError{}, &batch.LimitError{Err: batch.ErrTooLarge}
	damage := fmt.Errorf("x: %w", actorstore.ErrCorrupt)
	for _, tt := range []struct{ err, want error }{
		{quota, sqlitevfs.SystemError(quota, sqlite3.FULL)},
		{large, sqlitevfs.SystemError(large, sqlite3.FULL)},
		{damage, sqlitevfs.SystemError(damage, sqlite3.IOERR_CORRUPTFS)},
		{actorstore.ErrFenced, sqlitevfs.SystemError(actorstore.ErrFenced, op)},
		{actorstore.ErrPoisoned, sqlitevfs.SystemError(actorstore.ErrPoisoned, op)},
		{vfs.ErrFailed, sqlitevfs.SystemError(vfs.ErrFailed, op)},
		{errInjected, sqlitevfs.SystemError(errInjected, op)},
		{context.Canceled, sqlitevfs.SystemError(context.Canceled, op)},
		{sqlite3.BUSY_SNAPSHOT, sqlite3.BUSY_SNAPSHOT},
	} {
		if err := vfs.SQLiteError(tt.err, op); err != tt.want {
			t.Errorf("%v: SQLite is told %#v, want %#v", tt.err, err, tt.want)
		}
	}
	if err := vfs.SQLiteError(nil, op); err != nil {
		t.Errorf("no error became %v", err)
	}
	r := newRigOn(t, memkv.New(), batch.Limits{})
	h := newRigDatabase(t, r).Open(t.Context(), false)
	if err := vfs.ReadError(h, io.EOF); err != io.EOF {
		t.Errorf("io.EOF became %v, which go-sqlite3 does not fill up with zeros", err)
	}
}

// TestLeaveLog: a connection that removed the log keeps the file for itself until the header says
// so. SQLite lowers its lock between the two, but no other connection can open another log
// meanwhile.
func TestLeaveLog(t *testing.T) {
	db := newRigDatabase(t, newRig(t, batch.Limits{}))
	h, other := db.Open(t.Context(), false), db.Open(t.Context(), true)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.Lock(sqlitevfs.LOCK_SHARED))
	log, err := vfs.OpenLog(h)
	must(err)
	must(h.Lock(sqlitevfs.LOCK_EXCLUSIVE))
	must(log.Close())
	must(vfs.RemoveLog(t.Context(), h))
	refused := func(when string) {
		t.Helper()
		if err := other.Lock(sqlitevfs.LOCK_SHARED); !errors.Is(err, sqlite3.BUSY) {
			t.Errorf("another connection begins %s: %v", when, err)
		}
	}
	must(h.Unlock(sqlitevfs.LOCK_SHARED))
	refused("when the log is gone")
	must(h.Lock(sqlitevfs.LOCK_RESERVED))
	must(h.Lock(sqlitevfs.LOCK_EXCLUSIVE))
	refused("while the header is written")
	must(h.Unlock(sqlitevfs.LOCK_SHARED))
	must(h.Unlock(sqlitevfs.LOCK_NONE))
	must(other.Lock(sqlitevfs.LOCK_SHARED))
	must(h.Lock(sqlitevfs.LOCK_SHARED))
	must(h.Lock(sqlitevfs.LOCK_RESERVED))
	must(errors.Join(h.Close(), other.Close()))
}
