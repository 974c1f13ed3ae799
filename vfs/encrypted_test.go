package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// xorVFS encrypts like the VFSes of go-sqlite3, blocks of 512 bytes, but so that the
// first byte of a journal's header is zero: theirs is, once in 256 times.
type xorVFS struct{ sqlitevfs.VFS }

func (v xorVFS) Open(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	f, flags, err := v.VFS.Open(name, flags)
	if err != nil || flags&(sqlitevfs.OPEN_MAIN_DB|sqlitevfs.OPEN_MAIN_JOURNAL) == 0 {
		return f, flags, err
	}
	return &xorFile{f}, flags, nil
}

type xorFile struct{ sqlitevfs.File }

const xorKey = 0xd9 // the first byte of a journal

func (f *xorFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	for i := range b[:n] {
		b[i] ^= xorKey
	}
	return n, err
}

func (f *xorFile) WriteAt(b []byte, off int64) (int, error) {
	start := off &^ 511
	block := make([]byte, (off-start+int64(len(b))+511)&^511)
	if off != start || len(block) != len(b) {
		if _, err := f.ReadAt(block, start); err != nil && err.Error() != "EOF" {
			return 0, err
		}
	}
	copy(block[off-start:], b)
	for i := range block {
		block[i] ^= xorKey
	}
	_, err := f.File.WriteAt(block, start)
	return len(b), err
}

func (f *xorFile) Unwrap() sqlitevfs.File { return f.File }

// DeviceCharacteristics offers only what passes through.
func (f *xorFile) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic {
	return f.File.DeviceCharacteristics() &^ sqlitevfs.IOCAP_BATCH_ATOMIC
}

// CommitPhaseTwo passes on that a commit is over.
func (f *xorFile) CommitPhaseTwo() error {
	return f.File.(sqlitevfs.FileCommitPhaseTwo).CommitPhaseTwo()
}

// Pragma passes on what SQLite was told.
func (f *xorFile) Pragma(name, value string) (string, error) {
	return f.File.(sqlitevfs.FilePragma).Pragma(name, value)
}

// TestZeroFirstByte: an encrypted journal that begins with a zero isn't over. Every rollback and
// every recovery restores everything, even after parts of the transaction were stored.
func TestZeroFirstByte(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"delete", "truncate", "persist"} {
		for _, txMemory := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%s/%d", mode, txMemory), func(t *testing.T) {
				r := newRig(t, batch.Limits{})
				opts := &vfs.Options{
					Wrap: func(v sqlitevfs.VFS) sqlitevfs.VFS { return xorVFS{v} }, MaxConns: 2,
					TxMemory: txMemory, Pragmas: []string{"cache_size=10", "journal_mode=" + mode},
				}
				db := r.open(t, opts)
				exec(t, db, "create table t(a integer primary key, b)")
				exec(t, db, "insert into t(b) select zeroblob(3000) from generate_series(1, 1000)")
				before := contentOf(t, db)
				c := oneConn(t, db)
				exec(t, c, "begin immediate; update t set b = randomblob(3000)")
				if stored := db.Stats().Spills > 0; stored != (txMemory == 1) {
					t.Fatalf("parts are stored: %v", stored)
				}
				if contentOf(t, db) != before {
					t.Error("another connection sees what is not committed")
				}
				actor := forkNow(t, r)
				if txMemory == 1 {
					unfinishedHere(t, r, actor.ID())
				}
				exec(t, c, "rollback")
				intact(t, db)
				if contentOf(t, db) != before {
					t.Error("the rollback left a mark")
				}
				exec(t, c, "begin; update t set b = 'new'; commit")
				if n := one[int](t, db, "select count(*) from t where b = 'new'"); n != 1000 {
					t.Errorf("%d rows of the commit", n)
				}
				intact(t, db)
				opts.MayWrite = func(context.Context) error { return errors.New("refused") } // what is rolled back isn't asked for
				fork, err := vfs.Open(t.Context(), actor, opts)
				if err != nil {
					t.Fatal(err)
				}
				intact(t, fork)
				if contentOf(t, fork) != before {
					t.Error("the recovery left a mark")
				}
				if err := errors.Join(fork.Close(), actor.Close()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// unfinishedHere fails the test unless Check finds the actor's journal to be hot.
func unfinishedHere(t *testing.T, r *fixture, id actorstore.ID) {
	t.Helper()
	view, err := r.Store.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for f, err := range vfs.Check(t.Context(), view, nil) {
		found = found || f.Unfinished
		if err != nil || !f.Harmless {
			t.Errorf("%v %v", f, err)
		}
	}
	if !found {
		t.Error("Check takes the journal for one that is over")
	}
	if err := view.Close(); err != nil {
		t.Error(err)
	}
}

// TestEncryptedPersist: the zeroed header by which journal_mode=PERSIST ends a
// transaction can't be seen when it is encrypted. What was committed stays committed, for
// others, and after a crash; and of its end nothing is there before all of it is.
func TestEncryptedPersist(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"journal_mode=persist", "locking_mode=exclusive"} {
		for _, limits := range []batch.Limits{{}, oneBatch} {
			t.Run(fmt.Sprintf("%s/%d", mode, limits.AtomicBatches), func(t *testing.T) {
				r := newRig(t, limits)
				opts := &vfs.Options{Wrap: withAdiantum, MaxConns: 1, TxMemory: 1, Pragmas: []string{testKey, "cache_size=10", mode}}
				db := r.open(t, opts)
				exec(t, db, "create table t(a integer primary key, n, b)")
				exec(t, db, "insert into t(n, b) select 0, zeroblob(3000) from generate_series(1, 500)")
				var forks []*actorstore.Actor
				commits := 0
				for i := range 4 {
					r.Engine.Hook(func(op faultkv.Op) error {
						if op.Point == faultkv.AfterCommit && commits%7 == 0 && len(forks) < 12 {
							hook := forkHook{r, &forks}
							hook.take(t)
						}
						commits++
						return nil
					})
					exec(t, db, fmt.Sprintf("update t set n = %d, b = randomblob(3000)", i+1))
					r.Engine.Hook(nil)
					forks = append(forks, forkNow(t, r))
					fork := forks[len(forks)-1]
					if n := committed(t, fork, opts); n != i+1 {
						t.Errorf("after commit %d a crash leaves %d", i+1, n)
					}
				}
				for _, fork := range forks {
					committed(t, fork, opts)
					if err := fork.Close(); err != nil {
						t.Error(err)
					}
				}
				exec(t, db, "begin; update t set n = 77; rollback")
				if n := one[int](t, db, "select max(n) from t"); n != 4 || db.Stats().Spills == 0 {
					t.Errorf("after a rollback it is %d, %+v", n, db.Stats())
				}
				intact(t, db)
			})
		}
	}
}

// A forkHook forks the rig's actor between two engine commits.
type forkHook struct {
	r     *fixture
	forks *[]*actorstore.Actor
}

func (h forkHook) take(t *testing.T) {
	h.r.Engine.Hook(nil)
	*h.forks = append(*h.forks, forkNow(t, h.r))
}

// committed returns the n that all rows of the actor's table have.
func committed(t *testing.T, a *actorstore.Actor, opts *vfs.Options) int {
	t.Helper()
	db, err := vfs.Open(t.Context(), a, opts)
	if err != nil {
		t.Fatal(err)
	}
	intact(t, db)
	n := one[int](t, db, "select max(n) from t")
	if rows := one[int](t, db, "select count(*) from t where n = ?", n); rows != 500 {
		t.Errorf("%d rows of %d", rows, n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	return n
}

// TestEncryptedRollback: many encrypted transactions, each with another cipher text.
func TestEncryptedRollback(t *testing.T) {
	t.Parallel()
	rounds := testkit.Pick(50, 100, 600)
	for name, wrap := range map[string]func(sqlitevfs.VFS) sqlitevfs.VFS{"adiantum": withAdiantum, "xts": withXTS} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, &vfs.Options{Wrap: wrap, MaxConns: 1, Pragmas: []string{testKey, "cache_size=5"}})
		exec(t, db, "create table t(a integer primary key, b blob)")
		exec(t, db, "insert into t(b) select randomblob(1500) from generate_series(1, 20)")
		for i := range rounds {
			before := contentOf(t, db)
			_, err := db.ExecContext(t.Context(), "begin; update t set b = randomblob(1600); insert into t(b) select randomblob(3000) from t; rollback")
			if err != nil || contentOf(t, db) != before {
				t.Fatalf("%s: rollback %d left a mark: %v", name, i, err)
			}
			exec(t, db, "update t set b = randomblob(1500) where a = 1")
		}
		intact(t, db)
	}
}
