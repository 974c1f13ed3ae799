package vfs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
)

// TestWrongKeyKeepsJournal: with a wrong key or none, SQLite takes an encrypted journal that must
// be rolled back for one that is over. The journal stays for a connection with the right key.
func TestWrongKeyKeepsJournal(t *testing.T) {
	t.Parallel()
	for name, wrong := range wrongKeys() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			right := &vfs.Options{Wrap: withAdiantum, Pragmas: []string{testKey, "cache_size=10"}, TxMemory: 1}
			db := r.open(t, right)
			exec(t, db, "create table t(a integer primary key, b)")
			exec(t, db, "insert into t(b) select zeroblob(3000) from generate_series(1, 1000)")
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "update t set b = randomblob(3000)")
			if db.Stats().Spills == 0 {
				t.Fatal("nothing of the transaction is stored")
			}
			actor := forkNow(t, r)
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				openWrong(t, actor, wrong)
			}
			fork, err := vfs.Open(t.Context(), actor, right)
			if err != nil {
				t.Fatal(err)
			}
			intact(t, fork)
			if n := one[int](t, fork, "select count(*) from t where b = zeroblob(3000)"); n != 1000 {
				t.Errorf("%d rows are as they were committed", n)
			}
			exec(t, fork, "update t set b = 1")
			if err := errors.Join(fork.Close(), actor.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWrongKeyKeepsLog: to SQLite with another key there is nothing in a log, and it
// removes it when it closes. It stays, with what was committed in it.
func TestWrongKeyKeepsLog(t *testing.T) {
	for name, wrong := range wrongKeys() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			right := &vfs.Options{Wrap: withAdiantum, Pragmas: []string{testKey, "journal_mode=wal", "synchronous=full"}, TempDir: t.TempDir()}
			db := r.open(t, right)
			exec(t, db, "create table t(a integer primary key, b)")
			exec(t, db, "insert into t(b) select zeroblob(3000) from generate_series(1, 10)")
			actor := forkNow(t, r)
			for range 2 {
				openWrong(t, actor, wrong)
			}
			fork, err := vfs.Open(t.Context(), actor, right)
			if err != nil {
				t.Fatal(err)
			}
			intact(t, fork)
			if n := one[int](t, fork, "select count(*) from t"); n != 10 {
				t.Errorf("%d rows", n)
			}
			if err := errors.Join(fork.Close(), actor.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// forkNow opens a fork of the rig's actor as it is stored now, as after a crash.
func forkNow(t *testing.T, r *fixture) *actorstore.Actor {
	t.Helper()
	snap, err := r.Actor.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.Store.Fork(t.Context(), snap, nil)
	if err := errors.Join(err, snap.Close()); err != nil {
		t.Fatal(err)
	}
	actor, err := r.Store.Actor(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return actor
}

// wrongKeys are ways to open a database that adiantum has encrypted, without the key.
func wrongKeys() map[string]*vfs.Options {
	return map[string]*vfs.Options{
		"another key": {Wrap: withAdiantum, Pragmas: []string{strings.Replace(testKey, "0", "1", 1)}},
		"no key":      {Wrap: withAdiantum},
		"no wrapper":  {},
		"the other":   {Wrap: withXTS, Pragmas: []string{testKey}},
	}
}

// openWrong opens the actor's database without its key: nothing works.
func openWrong(t *testing.T, actor *actorstore.Actor, opts *vfs.Options) {
	t.Helper()
	db, err := vfs.Open(t.Context(), actor, opts)
	if err != nil {
		return
	}
	for _, q := range []string{"select count(*) from t", "create table x(a)", "pragma journal_mode=truncate", "vacuum", "begin immediate"} {
		if _, err := db.ExecContext(t.Context(), q); err == nil {
			t.Errorf("%s: it worked", q)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
