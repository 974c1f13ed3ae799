package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
	"github.com/ncruces/go-sqlite3/vfs/adiantum"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A firstCase is a way to have the first transaction of a database, of which parts are
// stored before it commits.
type firstCase struct {
	pragmas []string
	wrap    func(sqlitevfs.VFS) sqlitevfs.VFS
	limits  batch.Limits
	other   bool // another connection goes on
	run     func(ctx context.Context, db *vfs.DB) error
}

func (c *firstCase) options() *vfs.Options {
	return &vfs.Options{TxMemory: 1, MaxConns: 2, Pragmas: append(slices.Clip(c.pragmas), "cache_size=5"), Wrap: c.wrap}
}

// inUpdate runs spilled in DB.Update, with a key beside it.
func inUpdate(ctx context.Context, db *vfs.DB) error {
	return db.Update(ctx, func(tx *vfs.Tx) error {
		tx.Batch().Put(user("beside"), []byte("x"))
		_, err := tx.ExecContext(ctx, strings.NewReplacer("begin; ", "", "; commit", "").Replace(spilled))
		return err
	})
}

// inStatements runs spilled as one list of statements.
func inStatements(ctx context.Context, db *vfs.DB) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, spilled)
	if err != nil {
		_, _ = c.ExecContext(context.WithoutCancel(ctx), "rollback") // SQLite may have done it
	}
	return errors.Join(err, c.Close())
}

var firstCases = map[string]firstCase{
	"update":     {run: inUpdate},
	"statements": {run: inStatements},
	"other":      {run: inStatements, other: true},
	"in parts":   {limits: batch.Limits{AtomicBatches: 1, Entries: 64}, run: inUpdate},
	"truncate":   {pragmas: []string{"journal_mode=truncate"}, run: inStatements},
	"persist":    {pragmas: []string{"journal_mode=persist"}, run: inStatements},
	"exclusive":  {pragmas: []string{"locking_mode=exclusive"}, run: inStatements},
	"encrypted": {
		pragmas: []string{testKey}, wrap: func(v sqlitevfs.VFS) sqlitevfs.VFS { return adiantum.Wrap(v, nil) },
		run: inUpdate,
	},
}

// over looks at the database after its first transaction, which returned failure: it is
// whole or empty, and goes on, also when it is opened again.
func (c *firstCase) over(t *testing.T, r *fixture, db *vfs.DB, failure error, where string) {
	t.Helper()
	want := []int{300}
	if failure != nil {
		want[0] = 0
	}
	if errors.Is(failure, context.Canceled) {
		want = append(want, 300) // it may have ended after the commit
	}
	letGo := func() error { return nil }
	if c.other {
		letGo = oneConn(t, db).Close
	}
	for again := range 2 {
		if got := countOf(t, db); !slices.Contains(want, got) {
			t.Errorf("%s: %d rows, want %d after %v", where, got, want, failure)
		}
		exec(t, db, fmt.Sprintf("create table after%d(a)", again))
		intact(t, db)
		if err := errors.Join(letGo(), db.Close()); err != nil {
			t.Fatal(err)
		}
		letGo = db.Close // nothing, by now
		var err error
		if db, err = vfs.Open(t.Context(), r.Actor, c.options()); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
		t.Errorf("%s: the actor believes %d bytes are used, its keys hold %d", where, used, counted)
	}
	_, err := r.Actor.Get(t.Context(), user("beside"), nil)
	if err == nil && failure != nil && len(want) == 1 {
		t.Errorf("%s: what was staged has landed", where)
	}
	sound(t, r, where)
}

// countOf returns the number of rows of t, 0 without the table.
func countOf(t *testing.T, db queryer) int {
	t.Helper()
	if one[int](t, db, "select count(*) from sqlite_schema where name = 't'") == 0 {
		return 0
	}
	return one[int](t, db, "select count(*) from t")
}

// TestFirstTransactionQuota: the first transaction of a database exceeds the quota, early and late.
func TestFirstTransactionQuota(t *testing.T) {
	t.Parallel()
	for name, c := range firstCases {
		t.Run(name, func(t *testing.T) {
			failures, hot, step := 0, 0, testkit.Pick[int64](420_000, 60_000, 60_000)
			for quota := step; ; quota += step {
				limits := c.limits
				limits.Storage = quota
				r := newRig(t, limits)
				db := r.open(t, c.options())
				err := c.run(t.Context(), db)
				if err == nil {
					break
				}
				failures++
				carries(t, err, full, actorstore.ErrQuota)
				if d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName); err != nil || d.Look().StoredLive {
					hot++
				}
				c.over(t, r, db, err, fmt.Sprintf("quota of %d bytes", quota))
			}
			if failures < 2 || hot == 0 {
				t.Errorf("%d failures, %d left a journal", failures, hot)
			}
		})
	}
}

// TestFirstTransactionCancel ends the context of the first transaction of a database
// after each operation of the engine.
func TestFirstTransactionCancel(t *testing.T) {
	t.Parallel()
	for name, c := range firstCases {
		t.Run(name, func(t *testing.T) {
			cancelled := 0
			for at, over := 1, false; !over; at += 1 + at/4 {
				r := newRig(t, c.limits)
				db := r.open(t, c.options())
				ctx, cancel := context.WithCancel(t.Context())
				var ops atomic.Int64
				r.Engine.Hook(func(faultkv.Op) error {
					if ops.Add(1) == int64(at) {
						cancel()
					}
					return nil
				})
				err := c.run(ctx, db)
				r.Engine.Hook(nil)
				over = int(ops.Load()) < at
				cancel()
				if err != nil {
					cancelled++
				}
				c.over(t, r, db, err, fmt.Sprintf("cancelled after operation %d", at))
			}
			if cancelled == 0 {
				t.Error("nothing was cancelled")
			}
		})
	}
}

// leftJournal returns a database whose first transaction has exceeded the quota after a
// part of it was stored.
func leftJournal(t *testing.T, limits batch.Limits) (*engines.Tape, *fixture, *vfs.DB) {
	t.Helper()
	limits.Storage = 1_200_000
	tp := engines.NewTape()
	r := newRigOn(t, tp, limits)
	db := r.open(t, &vfs.Options{TxMemory: 1, MaxConns: 1, Pragmas: []string{"cache_size=5"}})
	if err := inStatements(t.Context(), db); !errors.Is(err, actorstore.ErrQuota) {
		t.Fatal(err)
	}
	if d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName); err != nil || !d.Look().Leftover() || d.Look().Stored < 1<<20 {
		t.Fatalf("%v: no journal is left", err)
	}
	return tp, r, db
}

var leftLimits = []batch.Limits{{}, {AtomicBatches: 1, Entries: 64}}

// TestFirstTransactionLeft crashes at each commit of the transaction that comes after a
// first one which left its journal.
func TestFirstTransactionLeft(t *testing.T) {
	for _, limits := range leftLimits {
		tp, _, db := leftJournal(t, limits)
		before := tp.Len()
		exec(t, db, "create table next(a)")
		if tp.Len() < before+3 {
			t.Errorf("%d commits", tp.Len()-before)
		}
		for n := before; n <= tp.Len(); n++ {
			where := fmt.Sprintf("after commit %d of %d", n-before, tp.Len()-before)
			checkState(t, tp.At(t, n), limits, []string{"no table"}, where)
			if n == tp.Len() {
				nextIsThere(t, tp, limits, where)
			}
		}
	}
}

// nextIsThere crashes, and fails the test unless the table next is there afterwards.
func nextIsThere(t *testing.T, tp *engines.Tape, limits batch.Limits, where string) {
	t.Helper()
	r := openRig(t, tp.At(t, tp.Len()), limits)
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if n := one[int](t, db, "select count(*) from sqlite_schema where name = 'next'"); n != 1 {
		t.Errorf("%s: the table is lost", where)
	}
	intact(t, db)
	if err := errors.Join(db.Close(), r.Actor.Close(), r.Store.Close()); err != nil {
		t.Error(err)
	}
}

// TestFirstTransactionLeftFault fails each operation of that transaction. While the
// journal is there no other one begins: it would be undone by the journal.
func TestFirstTransactionLeftFault(t *testing.T) {
	t.Parallel()
	for _, limits := range leftLimits {
		for _, kind := range faultKinds {
			for skip, hit := 0, true; hit; skip++ {
				where := fmt.Sprintf("%s, operation %d", kind.name, skip+1)
				tp, r, db := leftJournal(t, limits)
				f := r.Engine.Fail(faultkv.Rule{Point: kind.point, Skip: skip, Times: kind.times, Err: kind.err})
				_, err := db.ExecContext(t.Context(), "create table next(a)")
				f.Remove()
				if hit = f.Hits() > 0; err != nil && !errors.Is(err, kind.err) {
					t.Errorf("%s: %v", where, err)
				}
				if err == nil {
					nextIsThere(t, tp, limits, where)
				}
				if healthy(t, db) {
					exec(t, db, "create table if not exists next(a)")
					intact(t, db)
					nextIsThere(t, tp, limits, where)
				}
				checkState(t, tp.At(t, tp.Len()), limits, []string{"no table"}, where)
			}
		}
	}
}
