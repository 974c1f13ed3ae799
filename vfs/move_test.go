package vfs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
)

// TestMoveCrash stops the first write to a database of the older form after every
// engine commit, and the recovery from that after some: the database is as before or
// after the write, all in today's form once it is written to again.
func TestMoveCrash(t *testing.T) {
	t.Parallel()
	points := 0
	for _, limits := range []batch.Limits{{}, {Entries: 2}, {Entries: 3}, oneBatch} {
		for _, write := range []string{
			"insert into t(b) values ('new')", "update t set b = randomblob(900)", "delete from t where a > 5; vacuum",
		} {
			t.Run(fmt.Sprintf("%d entries/%.6s", limits.Entries, write), func(t *testing.T) {
				source := engines.NewTape()
				r := openRig(t, source, batch.Limits{})
				before := older(t, r, "x")
				closeRig(t, r)
				tp := source.At(t, source.Len())
				r = openRig(t, tp, limits)
				db := r.open(t, &vfs.Options{MaxConns: 1})
				exec(t, db, write)
				after := contentOf(t, db)
				step := testkit.Pick(4, 1, 1)
				for n := tp.Len() % step; n <= tp.Len(); n += step { // the last is one
					want := []string{before, after}
					if n == tp.Len() {
						want = want[1:]
					}
					points += crashPoint(t, tp, n, limits, want)
				}
			})
		}
	}
	t.Logf("%d crash points", points)
}

// TestMoveHotJournal is the same for a database that a crash left in the older form
// with a journal to roll back.
func TestMoveHotJournal(t *testing.T) {
	t.Parallel()
	hot, points := 0, 0
	tp := engines.NewTape()
	small := batch.Limits{AtomicBatches: 1, Entries: 3}
	r := openRig(t, tp, small)
	db := r.open(t, &vfs.Options{MaxConns: 1, Pragmas: []string{"cache_size=5"}})
	for _, s := range olderSetup {
		exec(t, db, s)
	}
	before, from := contentOf(t, db), tp.Len()
	exec(t, db, "update t set b = randomblob(900)")
	after := contentOf(t, db)
	for n := from; n < tp.Len(); n++ {
		source := tp.At(t, n)
		r := openRig(t, source, batch.Limits{})
		if isStored(t, r.Actor, layout.AppendFileMeta(nil, actorstore.FileJournal)) {
			hot++
		}
		rename(t, r.Actor, "x")
		closeRig(t, r)

		moved := source.At(t, source.Len())
		r = openRig(t, moved, small)
		again, err := vfs.Open(t.Context(), r.Actor, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{before, after}
		if got := contentOf(t, again); !slices.Contains(want, got) {
			t.Errorf("after commit %d: the database holds %.60s", n, got)
		}
		exec(t, again, "create table if not exists after_crash(a)")
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		closeRig(t, r)
		step := testkit.Pick(31, 3, 3)
		for m := 0; m <= moved.Len(); m += step {
			points += crashPoint(t, moved, m, small, want)
		}
	}
	if hot < 5 {
		t.Errorf("%d hot journals", hot)
	}
	t.Logf("%d crash points, %d journals", points, hot)
}

// crashPoint opens what a crash after the first n commits of tp leaves, and what
// a crash of that recovery leaves.
func crashPoint(t *testing.T, tp *engines.Tape, n int, limits batch.Limits, want []string) (points int) {
	t.Helper()
	left := tp.At(t, n)
	wholeAndMoved(t, left, limits, want, fmt.Sprintf("after commit %d of %d", n, tp.Len()))
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	for range 2 {
		m := rng.IntN(left.Len() + 1)
		again := left.At(t, m)
		wholeAndMoved(t, again, limits, want, fmt.Sprintf("after commit %d, recovery cut after %d", n, m))
	}
	return 3
}

// wholeAndMoved checks that the database in tp is one of want, to a view that only
// looks and to its owner, and that a write leaves nothing in the older form.
func wholeAndMoved(t *testing.T, tp *engines.Tape, limits batch.Limits, want []string, where string) {
	t.Helper()
	r := openRig(t, tp, limits)
	look := func(what string, db queryer) {
		t.Helper()
		if got := contentOf(t, db); !slices.Contains(want, got) {
			t.Errorf("%s: %s sees %.60s, want one of %.60q", where, what, got, want)
		}
		intact(t, db)
	}
	journal := layout.AppendFileMeta(nil, actorstore.FileJournal)
	named, _ := oldkeys.Key(layout, "x", journal)
	if !isStored(t, r.Actor, journal) && !isStored(t, r.Actor, named) { // a view can't roll back
		pinned, err := r.Store.View(t.Context(), r.Actor.ID())
		if err != nil {
			t.Fatal(err)
		}
		view, err := vfs.OpenView(t.Context(), pinned, nil)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		look("a view", view)
		if err := errors.Join(view.Close(), pinned.Close()); err != nil {
			t.Error(err)
		}
	}
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	look("the owner", db)
	exec(t, db, "create table if not exists after_crash(a)")
	look("the owner, after a write,", db)
	rig.Exact(t, r.Actor)
	if left := namedLeft(t, r.Actor); len(left) > 0 {
		t.Errorf("%s: left are %.200q", where, left)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	closeRig(t, r)
}

func closeRig(t *testing.T, r *fixture) {
	t.Helper()
	if err := errors.Join(r.Actor.Close(), r.Store.Close()); err != nil {
		t.Error(err)
	}
}

// TestMoveIsSmall: a large database is moved in steps within the limits, none of
// which makes the actor grow, and with few reads.
func TestMoveIsSmall(t *testing.T) {
	r := newRigOn(t, memkv.New(), batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "create table t(a integer primary key, b)")
	exec(t, db, "insert into t(b) select randomblob(4000) from generate_series(1, 1000)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	rename(t, r.Actor, strings.Repeat("long", 20))
	db = r.open(t, nil)
	intact(t, db)
	commits, used, most := 0, r.Actor.Used(), batch.DefaultLimits().Entries
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point != faultkv.BeforeCommit {
			return nil
		}
		commits++
		if n := len(op.Commit.Ops); n > 4*most+8 { // a key is a few rows
			t.Errorf("a commit of %d rows", n)
		}
		if u := r.Actor.Used(); u > used {
			t.Errorf("the actor grew from %d to %d", used, u)
		}
		return nil
	})
	r.Engine.Reset()
	exec(t, db, "update t set b = 1 where a = 1")
	r.Engine.Heal()
	if commits < 10 || commits > 1100/(most/2)+5 {
		t.Errorf("%d commits", commits)
	}
	if c := r.Engine.Counts(); c.Gets+c.Scans > int64(3*commits+30) || c.Durable != 1 {
		t.Errorf("%d reads, %d durable commits for %d commits", c.Gets+c.Scans, c.Durable, commits)
	}
	intact(t, db)
}

// TestNamedTorn: a step of the move that was cut off between two commits leaves
// chunks under both keys; the next move goes on, and the quota stays exact.
func TestNamedTorn(t *testing.T) {
	r := newRig(t, batch.Limits{})
	content := older(t, r, "x")
	for i, chunk := range []uint32{0, 3, 5} {
		v, err := r.Actor.Get(t.Context(), layout.AppendNamedFileChunk(nil, "x", chunk), nil)
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			v = nil // an empty one reads as none
		}
		if err := r.Actor.Put(t.Context(), layout.AppendFileChunk(nil, actorstore.FileMain, chunk), v); err != nil {
			t.Fatal(err)
		}
	}
	db := r.open(t, nil)
	if got := contentOf(t, db); got != content {
		t.Errorf("the database holds %.60s, want %.60s", got, content)
	}
	exec(t, db, "create table if not exists after_crash(a)")
	if got := contentOf(t, db); got != content {
		t.Errorf("moved, the database holds %.60s, want %.60s", got, content)
	}
	intact(t, db)
	if left := namedLeft(t, r.Actor); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	rig.Exact(t, r.Actor)
}
