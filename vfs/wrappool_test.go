package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// A VFS on top of a pool's: its files are found through it.
func TestWrapOption(t *testing.T) {
	for name, wrap := range map[string]func(sqlitevfs.VFS) sqlitevfs.VFS{"adiantum": withAdiantum, "xts": withXTS} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, batch.Limits{Storage: 1 << 20})
			opts := &vfs.Options{Wrap: wrap, Pragmas: []string{testKey, "cache_size=5"}, MaxSnapshots: 1}
			db := r.open(t, opts)
			const secret = "nobody may read this"
			exec(t, db, "create table t(a integer primary key, b); insert into t(b) values ('"+secret+"')")
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for left := 10; left > 0; left-- {
						err := db.Update(t.Context(), func(tx *vfs.Tx) error {
							var n int
							if err := tx.QueryRowContext(t.Context(), "select count(*) from t").Scan(&n); err != nil {
								return err
							}
							tx.Batch().Put(mark, []byte{byte(n)})
							_, err := tx.ExecContext(t.Context(), "insert into t(b) values (zeroblob(500))")
							return err
						})
						if errors.Is(err, vfs.ErrSnapshotTooOld) {
							left++ // a connection that was just opened read the schema
						} else if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if got, err := r.Actor.Get(t.Context(), mark, nil); err != nil || got[0] != 40 || one[int](t, db, "select count(*) from t") != 41 {
				t.Errorf("%d, %v", got, err)
			}
			_, err := db.ExecContext(t.Context(), "insert into t(b) values (zeroblob(3000000))")
			carries(t, err, full, actorstore.ErrQuota)
			reader := readOnlyTx(t, db)
			one[int](t, reader, sumT)
			exec(t, db, "update t set b = b || ' '")
			carries(t, reader.QueryRowContext(t.Context(), sumT).Scan(new(int)), lockedOut, vfs.ErrSnapshotTooOld)
			if err := reader.Rollback(); err != nil {
				t.Error(err)
			}
			var file bytes.Buffer
			if _, err := db.Export(t.Context(), &file); err != nil || bytes.Contains(file.Bytes(), format.Magic) || bytes.Contains(file.Bytes(), []byte(secret)) {
				t.Errorf("the export is not encrypted, %v", err)
			}
			if got := one[string](t, db, "pragma journal_mode=wal"); got != "wal" {
				t.Errorf("the mode is %s", got)
			}
			exec(t, db, "insert into t(b) values ('in the log')")
			if _, err := db.Export(t.Context(), io.Discard); !errors.Is(err, vfs.ErrUnsupported) {
				t.Errorf("an export without the log: %v", err)
			}
			if err := db.Update(t.Context(), func(*vfs.Tx) error { return nil }); !errors.Is(err, vfs.ErrUnsupported) {
				t.Errorf("Update in WAL mode: %v", err)
			}
			intact(t, db)
			wrongKey(t, r, db, opts)
		})
	}
}

// wrongKey opens the database with another key, and without one: nothing is read, and
// nothing lost.
func wrongKey(t *testing.T, r *fixture, db *vfs.DB, opts *vfs.Options) {
	t.Helper()
	want := one[int](t, db, "select count(*) from t")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pragma := range []string{strings.Replace(testKey, "0", "1", 1), "user_version"} {
		bad := *opts
		bad.Pragmas = []string{pragma}
		db, err := vfs.Open(t.Context(), r.Actor, &bad)
		if err != nil {
			continue
		}
		if _, err := db.ExecContext(t.Context(), "insert into t(b) values (1)"); err == nil {
			t.Errorf("written with %q", pragma)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	db = r.open(t, opts)
	if got := one[int](t, db, "select count(*) from t"); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
	intact(t, db)
}

// A hidden file is what a VFS makes that doesn't let one look through it.
type hiddenFile struct{ sqlitevfs.File }

// DeviceCharacteristics offers only what passes through.
func (f hiddenFile) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic {
	return f.File.DeviceCharacteristics() &^ sqlitevfs.IOCAP_BATCH_ATOMIC
}

type hidingVFS struct{ sqlitevfs.VFS }

func (v hidingVFS) Open(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	f, flags, err := v.VFS.Open(name, flags)
	return hiddenFile{f}, flags, err
}

// TestWrapHidden: through a VFS that hides its files Update is refused, everything
// else works.
func TestWrapHidden(t *testing.T) {
	r := newRig(t, batch.Limits{Storage: 1 << 20})
	db := r.open(t, &vfs.Options{Wrap: func(v sqlitevfs.VFS) sqlitevfs.VFS { return hidingVFS{v} }})
	exec(t, db, table)
	exec(t, db, fill)
	if err := db.Update(t.Context(), func(*vfs.Tx) error { return nil }); !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if _, err := db.ExecContext(t.Context(), "insert into t(b) values (zeroblob(3000000))"); !errors.Is(err, sqlite3.FULL) {
		t.Errorf("%v", err)
	}
	intact(t, db)
}
