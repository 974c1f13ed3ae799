package vfs_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestWALCheckpointRefused: a checkpoint whose pages the engine refuses stops no writer:
// transactions are stored as long as the log has room, those with synchronous=FULL
// durably, and a crash finds them. When the engine takes the pages they are stored.
func TestWALCheckpointRefused(t *testing.T) {
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
	const storage = 390_000
	engine := memkv.New()
	r := newRigOn(t, engine, batch.Limits{Storage: storage})
	db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{Pragmas: []string{"synchronous=" + sync, "wal_autocheckpoint=0", "cache_size=5"}})
	if err != nil {
		t.Fatal(err)
	}
	logged(t, db)
	exec(t, db, "create table t(a integer primary key, b)")
	refusal := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Match: storesMain, Times: faultkv.Forever, Err: kv.ErrTooLarge})
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
			t.Errorf("a checkpoint that is refused: %v", err)
		}
		for range 2 {
			exec(t, w, "insert into t(b) values (randomblob(3000))")
			rows++
		}
		if got := one[int](t, db, "select count(*) from t where length(b) = 3000"); got != rows {
			t.Errorf("%d rows, want %d", got, rows)
		}
		intact(t, db)
		rig.Exact(t, r.Actor)
	}
	if held != nil {
		held.check(t, "after the checkpoints")
	}
	for err = nil; err == nil && rows < 1000; { // until the log is full
		if _, err = w.ExecContext(t.Context(), "insert into t(b) values (randomblob(3000))"); err == nil {
			rows++
		}
	}
	if !errors.Is(err, sqlite3.FULL) || r.Actor.Used() < storage*9/10 {
		t.Errorf("with %d of %d bytes in use: %v", r.Actor.Used(), storage, err)
	}
	if held != nil {
		held.end(t)
	}
	if crash {
		r = openRig(t, engine, batch.Limits{Storage: storage}) // takes the actor over
		db = r.open(t, nil)
		rig.Exact(t, r.Actor)
	} else {
		defer db.Close()
		defer w.Close()
	}
	if refusal.Hits() == 0 {
		t.Error("no checkpoint was refused")
	}
	refusal.Remove()
	checkpointAgain(t, r.Actor, db, rows)
}

// storesMain matches the commits that store chunks of the main file.
func storesMain(op faultkv.Op) bool {
	return slices.ContainsFunc(op.Commit.Ops, func(o kv.Op) bool {
		return bytes.Contains(o.Key, []byte{9, 1, 0, 0xff}) // 00 is escaped
	})
}

// checkpointAgain runs a checkpoint, now that nothing is refused.
func checkpointAgain(t *testing.T, a *actorstore.Actor, db *vfs.DB, rows int) {
	t.Helper()
	look := func(when string) {
		t.Helper()
		if got := one[int](t, db, "select count(*) from t where length(b) = 3000"); got != rows {
			t.Errorf("%s there are %d rows, want %d", when, got, rows)
		}
		intact(t, db)
	}
	look("before the checkpoint")
	exec(t, db, "insert into t(b) values (1)")
	if truncateLog(t, db) {
		t.Error("the checkpoint is held up")
	}
	exec(t, db, "insert into t(b) values (2)")
	look("after it")
	rig.Exact(t, a)
	if files := storedFiles(t, a); files[actorstore.FileMain] < int64(rows)*3000 || files[actorstore.FileWAL] > 100_000 {
		t.Errorf("stored are %v", files)
	}
}

// TestWALQuotaReader fills the quota with the log while a transaction reads. Until it ends every
// write is refused; then the next one lands, and the log gives its room back, also in a
// database that was closed, or whose process died.
func TestWALQuotaReader(t *testing.T) {
	for _, write := range []string{"update t set b = randomblob(3000)", "insert into t(b) values (randomblob(3000))"} {
		for _, way := range []string{"same pool", "closed", "crash"} {
			for _, checkpointed := range []bool{false, true} { // the main file has what was there before
				t.Run(fmt.Sprintf("%.6s/%s/checkpointed=%v", write, way, checkpointed), func(t *testing.T) {
					fillByReader(t, write, way, checkpointed)
				})
			}
		}
	}
}

func fillByReader(t *testing.T, write, way string, checkpointed bool) {
	limits := batch.Limits{Storage: 600_000}
	engine := memkv.New()
	r := newRigOn(t, engine, limits)
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	logged(t, db)
	exec(t, db, "create table t(a integer primary key, b)")
	exec(t, db, "insert into t values (1, randomblob(3000))")
	if checkpointed && truncateLog(t, db) {
		t.Fatal("the checkpoint is held up")
	}
	held := beginRead(t, db, 1)
	writes := 0
	for ; err == nil && writes < 1000; writes++ {
		_, err = db.ExecContext(t.Context(), write)
	}
	if used := r.Actor.Used(); !errors.Is(err, actorstore.ErrQuota) || used < limits.Storage*9/10 {
		t.Fatalf("after %d writes, with %d bytes in use: %v", writes, used, err)
	}
	for range 2 {
		if _, err := db.ExecContext(t.Context(), write); !errors.Is(err, actorstore.ErrQuota) {
			t.Errorf("a write before the reader's end: %v", err)
		}
	}
	rows := one[int](t, db, "select count(*) from t")
	if way != "crash" {
		held.end(t)
	}
	switch way {
	case "same pool":
		defer db.Close()
	case "closed":
		if err := errors.Join(held.conn.(*sql.Conn).Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
		r.Reopen(t, limits)
		db = r.open(t, nil)
	case "crash":
		r = openRig(t, engine, limits) // takes the actor over
		db = r.open(t, nil)
	}
	exec(t, db, "update t set b = randomblob(3000) where a = 1")
	intact(t, db)
	rig.Exact(t, r.Actor)
	if got := one[int](t, db, "select count(*) from t where length(b) = 3000"); got != rows {
		t.Errorf("%d rows, want %d", got, rows)
	}
	if got := storedFiles(t, r.Actor)[actorstore.FileWAL]; got > 20_000 {
		t.Errorf("the log has %d bytes", got)
	}
	exec(t, db, "delete from t where a > 1")
	exec(t, db, "vacuum")
	if truncateLog(t, db) {
		t.Error("the checkpoint is held up after the reader's end")
	}
	if used := r.Actor.Used(); used > 30_000 {
		t.Errorf("%d bytes are in use after a VACUUM", used)
	}
	rig.Exact(t, r.Actor)
}

// TestWALQuotaSmall: a quota that is smaller than SQLite lets the log become refuses
// nothing to a small database.
func TestWALQuotaSmall(t *testing.T) {
	for _, sync := range []string{"FULL", "NORMAL"} {
		r := newRig(t, batch.Limits{Storage: 600_000})
		db := r.open(t, &vfs.Options{Pragmas: []string{"synchronous=" + sync}})
		logged(t, db)
		exec(t, db, "create table t(a integer primary key, b)")
		exec(t, db, "insert into t values (1, randomblob(3000))")
		before := db.Stats().LogCommits
		for range 400 {
			exec(t, db, "update t set b = randomblob(3000)")
		}
		if got := db.Stats().LogCommits - before; got != 400 {
			t.Errorf("%d commits of 400", got)
		}
		rig.Exact(t, r.Actor)
		intact(t, db)
	}
}
