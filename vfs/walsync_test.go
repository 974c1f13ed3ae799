package vfs_test

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestWALDefaultLevel: in WAL mode go-sqlite3's default for synchronous is NORMAL. A
// transaction is stored before anybody sees it, and not waited for.
func TestWALDefaultLevel(t *testing.T) {
	for _, pragmas := range [][]string{nil, {"synchronous=normal"}, {"synchronous=full"}} {
		r := newRig(t, batch.Limits{})
		db := r.open(t, &vfs.Options{Pragmas: pragmas})
		logged(t, db)
		exec(t, db, "create table t(a)")
		writer, reader := oneConn(t, db), oneConn(t, db)
		exec(t, writer, "insert into t values (0)")
		one[int](t, reader, "select count(*) from t")
		r.Engine.Reset()
		exec(t, writer, "insert into t values (1)")
		want := int64(0)
		if level := one[int](t, writer, "PRAGMA synchronous"); level >= 2 {
			want = 1
		}
		if got := r.Engine.Counts(); got.Commits != 1 || got.Durable != want {
			t.Errorf("%v: %+v, want one commit, %d of them durable", pragmas, got, want)
		}
		seen := 0
		r.Engine.Hook(func(op faultkv.Op) error {
			if op.Point != faultkv.BeforeCommit || seen > 0 {
				return nil
			}
			seen = one[int](t, reader, "select count(*) from t")
			return errInjected
		})
		_, err := writer.ExecContext(t.Context(), "insert into t values (2)")
		r.Engine.Hook(nil)
		if err == nil || seen != 2 {
			t.Errorf("%v: a reader saw %d rows before the third was stored; then: %v", pragmas, seen, err)
		}
	}
}

// TestWALFullMemory: a transaction whose end fills the memory set aside is waited for
// all the same.
func TestWALFullMemory(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db := r.open(t, &vfs.Options{Pragmas: []string{"journal_mode=wal", "synchronous=full", "wal_autocheckpoint=0"}, MaxConns: 1, TxMemory: 1})
	exec(t, db, "create table t(a integer primary key, b blob)")
	for pages := 245; pages < 260; pages++ {
		exec(t, db, "pragma wal_checkpoint(truncate)")
		r.Engine.Reset()
		exec(t, db, fmt.Sprintf("insert into t(b) values (randomblob(%d))", pages*4092))
		if got := r.Engine.Counts(); got.Durable+got.Syncs == 0 {
			t.Errorf("%d pages are acknowledged: %+v", pages, got)
		}
	}
}
