package vfs

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestWALQuotaCheckpoint: a checkpoint for which the main file has no room is refused,
// and stops nobody: transactions are stored as long as the log has room, those with
// synchronous=FULL durably, and a crash finds them. When there is room it is stored.
func TestWALQuotaCheckpoint(t *testing.T) {
	for _, sync := range []string{"FULL", "NORMAL", "OFF"} {
		for _, reader := range []bool{false, true} {
			for _, crash := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/reader=%v/crash=%v", sync, reader, crash), func(t *testing.T) {
					refuseCheckpoint(t, sync, reader, crash)
				})
			}
		}
	}
}

func refuseCheckpoint(t *testing.T, sync string, reader, crash bool) {
	const storage, ballast = 690_000, 100_000 // three of them
	engine := memkv.New()
	r := newRigOn(t, engine, batch.Limits{Storage: storage})
	db, err := Open(t.Context(), r.actor, &Options{Pragmas: []string{"synchronous=" + sync, "wal_autocheckpoint=0", "cache_size=5"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := r.actor.Put(t.Context(), fmt.Append(nil, "ballast", i), make([]byte, ballast)); err != nil {
			t.Fatal(err)
		}
	}
	logged(t, db)
	exec(t, db, "create table t(a integer primary key, b)")
	w := oneConn(t, db)
	exec(t, w, "insert into t(b) select randomblob(3000) from generate_series(1, 45)")
	var held *readTx
	if reader {
		held = beginRead(t, db, 45*46/2)
	}
	exec(t, w, "insert into t(b) select randomblob(3000) from generate_series(1, 5)")
	rows := 50
	for range 3 {
		if err := w.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint").Scan(new(int), new(int), new(int)); reader {
			// A part of the log is copied, and SQLite can't be told that it isn't stored.
			if err != nil {
				t.Errorf("a checkpoint of a part: %v", err)
			}
		} else if !errors.Is(err, sqlite3.FULL) {
			t.Errorf("a checkpoint without room: %v", err)
		}
		for range 2 {
			exec(t, w, "insert into t(b) values (randomblob(3000))")
			rows++
		}
		if got := one[int](t, db, "select count(*) from t where length(b) = 3000"); got != rows {
			t.Errorf("%d rows, want %d", got, rows)
		}
		intact(t, db)
		exact(t, r.actor)
	}
	if held != nil {
		held.check(t, "after the checkpoints")
	}
	for err = nil; err == nil && rows < 1000; { // until the log is full
		if _, err = w.ExecContext(t.Context(), "insert into t(b) values (randomblob(3000))"); err == nil {
			rows++
		}
	}
	if !errors.Is(err, sqlite3.FULL) || r.actor.Used() < storage*9/10 {
		t.Errorf("with %d of %d bytes in use: %v", r.actor.Used(), storage, err)
	}
	if held != nil {
		held.end(t)
	}
	if crash {
		r = openRig(t, engine, batch.Limits{Storage: storage}) // takes the actor over
		db = r.open(t, nil)
		exact(t, r.actor)
	} else {
		defer db.Close()
		defer w.Close()
	}
	roomAgain(t, r.actor, db, rows)
}

// roomAgain makes room, by what isn't the database's, and has the log checkpointed.
func roomAgain(t *testing.T, a *actorstore.Actor, db *DB, rows int) {
	t.Helper()
	look := func(when string) {
		t.Helper()
		if got := one[int](t, db, "select count(*) from t where length(b) = 3000"); got != rows {
			t.Errorf("%s there are %d rows, want %d", when, got, rows)
		}
		intact(t, db)
	}
	look("without room")
	if err := a.DeleteRange(t.Context(), []byte("ballast"), []byte("ballasu")); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "insert into t(b) values (1)")
	if truncateLog(t, db) {
		t.Error("the checkpoint is held up")
	}
	exec(t, db, "insert into t(b) values (2)")
	look("with room")
	exact(t, a)
	if files := storedFiles(t, a); files[actorstore.FileMain] < int64(rows)*3000 || files[actorstore.FileWAL] > 100_000 {
		t.Errorf("stored are %v", files)
	}
}
