package vfs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

var errInjected = errors.New("injected fault")

// errLost is what an engine says that lost its connection during a commit.
var errLost = fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, errInjected)

// errRefused is what an engine says that has no room for a commit.
var errRefused = kv.NotApplied(errInjected)

// A faultKind is one way in which an operation of the engine fails.
type faultKind struct {
	name  string
	point faultkv.Point
	err   error
	mixed bool // for TestFaultMixed only: elsewhere it would take long, and show no more
	times int  // faultkv.Rule's
}

// faultKinds has those that strike before the operation is done, and those that
// strike after a commit was applied: as an engine says it that knows of its doubt,
// as one says it that doesn't, and when only the wait for the disk failed. Of those that
// last until SQLite has given up, its rollback fails, too.
var faultKinds = []faultKind{
	{"get", faultkv.BeforeGet, errInjected, false, 0},
	{"scan", faultkv.BeforeScan, errInjected, false, 0},
	{"entry", faultkv.BeforeEntry, errInjected, false, 0},
	{"snapshot", faultkv.BeforeSnapshot, errInjected, false, 0},
	{"commit", faultkv.BeforeCommit, errInjected, false, 0},
	{"refused", faultkv.BeforeCommit, errRefused, false, 0},
	{"all refused", faultkv.BeforeCommit, errRefused, false, faultkv.Forever},
	{"commit in doubt", faultkv.BeforeCommit, errLost, true, 0},
	{"lost acknowledgement", faultkv.AfterApply, errLost, false, 0},
	{"lost acknowledgement, plain", faultkv.AfterApply, errInjected, true, 0},
	{"not durable", faultkv.AfterCommit, errInjected, false, 0},
	{"sync", faultkv.BeforeSync, errInjected, false, 0},
	{"all gets", faultkv.BeforeGet, errInjected, false, faultkv.Forever},
	{"all snapshots", faultkv.BeforeSnapshot, errInjected, false, faultkv.Forever},
}

// reads says whether the kind leaves what is stored alone.
func (k faultKind) reads() bool {
	return k.point != faultkv.BeforeCommit && k.point != faultkv.AfterApply && k.point != faultkv.AfterCommit && k.point != faultkv.BeforeSync
}

// TestFault fails every engine operation of every crash case once, before and
// after it was applied; of the reads, which are many, some (TestFaultMixed
// has them all). The error reaches the caller with its cause, and the database,
// opened again where it refuses to go on, is as it was before or after the
// transaction.
func TestFault(t *testing.T) {
	t.Parallel()
	total := 0
	for i, c := range crashCases {
		for j, kind := range faultKinds {
			if kind.mixed || testkit.Short() && (i+j)%2 > 0 {
				continue
			}
			t.Run(c.name+"/"+kind.name, func(t *testing.T) {
				if testkit.Short() {
					total += c.faultOne(t, kind, 1+(5*i+3*j)%12)
					return
				}
				step := 1
				if kind.reads() {
					step = testkit.Pick(101, 101, 11)
				}
				for nth := 1; c.fault(t, kind, nth); nth += step {
					total++
				}
			})
		}
	}
	t.Logf("%d faults", total)
}

// faultOne fails the nth operation of this kind, or if there are not so many the first,
// and returns how many that were.
func (c *crashCase) faultOne(t *testing.T, kind faultKind, nth int) int {
	t.Helper()
	if c.fault(t, kind, nth) || nth > 1 && c.fault(t, kind, 1) {
		return 1
	}
	return 0
}

// fault plays the case with the nth operation failing, and says whether there
// was one.
func (c *crashCase) fault(t *testing.T, kind faultKind, nth int) bool {
	t.Helper()
	where := fmt.Sprintf("operation %d", nth)
	engine := faultkv.New(memkv.New())
	r := openRig(t, engine, c.limits)
	db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{Pragmas: c.pragmas, TxMemory: c.txMemory, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.setup {
		exec(t, db, s)
	}
	states := []string{contentOf(t, db)}
	armed := false // what looks at the state must not fail
	fault := engine.Fail(faultkv.Rule{
		Point: kind.point, Skip: nth - 1, Times: kind.times, Err: kind.err, Match: func(faultkv.Op) bool { return armed },
	})
	var failure error
	for _, s := range c.steps {
		armed = true
		_, failure = db.ExecContext(t.Context(), s.sql)
		armed = false
		if failure != nil {
			break
		}
		// SQLite may keep the error of a rollback to itself; the database does not.
		state, err := tryContent(t.Context(), db)
		if failure = err; failure != nil {
			break
		}
		states = append(states, state)
	}
	hit := fault.Hits() > 0
	if hit && failure != nil && !errors.Is(db.Cause(), kind.err) {
		t.Errorf("%s: %v; its cause is %v", where, failure, db.Cause())
	}
	if !hit && failure != nil {
		t.Errorf("%s: %v, without a fault", where, failure)
	}
	fault.Remove()
	if part := (*batch.OrderedError)(nil); !healthy(t, db) {
		inParts := errors.As(db.Cause(), &part) && slices.Contains(c.pragmas, "journal_mode=WAL")
		if kind.err == errRefused && !inParts && !errors.Is(db.Cause(), vfs.ErrIndexAhead) {
			t.Errorf("%s: %v leaves the database in doubt, though nothing was applied", where, failure)
		}
		if _, err := tryContent(t.Context(), db); err == nil {
			t.Errorf("%s: the database answers in doubt", where)
		}
	} else {
		// Nothing is in doubt: what failed has changed nothing, and the next one works.
		turnBack(t, db)
		if got := contentOf(t, db); got != states[len(states)-1] {
			t.Errorf("%s: the database holds %.60s, and says that it changed nothing", where, got)
		}
		exec(t, db, "create table if not exists after_crash(a)")
		intact(t, db)
	}
	if err := errors.Join(db.Close(), r.Actor.Close(), r.Store.Close()); err != nil {
		t.Errorf("%s: closing: %v", where, err)
	}
	c.afterFault(t, engine, states, failure, where)
	return hit
}

// TestPartWithoutJournal: in journal_mode=MEMORY nothing that is stored can undo a part of a transaction. When the rest is
// refused the database fails.
func TestPartWithoutJournal(t *testing.T) {
	r := newRig(t, oneBatch)
	db := r.open(t, &vfs.Options{Pragmas: []string{"journal_mode=MEMORY"}})
	exec(t, db, table)
	exec(t, db, fill)
	r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 2, Err: errRefused})
	_, err := db.ExecContext(t.Context(), "update t set b = randomblob(1500)")
	if part := (*batch.OrderedError)(nil); !errors.As(db.Cause(), &part) {
		t.Fatalf("no part of it has landed: %v", err)
	}
	if healthy(t, db) {
		t.Error("the database goes on with a part of a transaction in its file")
	}
}

// healthy says whether the database goes on without being opened again.
func healthy(t *testing.T, db *vfs.DB) bool {
	t.Helper()
	d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
	if err != nil {
		t.Fatal(err)
	}
	return !d.Look().Failed
}

// turnBack ends the transaction that a failed list of statements has left open, if
// it has: SQLite ends some by itself.
func turnBack(t *testing.T, db *vfs.DB) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), "rollback"); err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		t.Errorf("rollback: %v", err)
	}
}

// afterFault opens the store again: the last acknowledged state is there, or, if
// the transaction after it failed, that one's.
func (c *crashCase) afterFault(t *testing.T, engine *faultkv.Engine, states []string, failure error, where string) {
	t.Helper()
	r := openRig(t, engine, c.limits)
	db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{Pragmas: c.pragmas, TxMemory: c.txMemory, MaxConns: 1})
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	intact(t, db)
	got, last := contentOf(t, db), len(states)-1
	if got != states[last] && failure == nil {
		t.Errorf("%s: the database holds %.60s, want %.60s", where, got, states[last])
	}
	if failure != nil && last > 0 && slices.Contains(states[:last], got) && got != states[last] {
		t.Errorf("%s: an acknowledged transaction is lost: %.60s", where, got)
	}
	exec(t, db, "create table if not exists after_crash(a)")
	intact(t, db)
	if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
		t.Errorf("%s: the actor believes %d bytes are used, its keys hold %d", where, used, counted)
	}
	if err := errors.Join(db.Close(), r.Actor.Close(), r.Store.Close(), engine.Close()); err != nil {
		t.Errorf("%s: closing: %v", where, err)
	}
}
