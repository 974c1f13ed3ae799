package vfs

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var errInjected = errors.New("injected fault")

// failNth returns a hook that fails the nth operation at point, and the count of
// operations that it saw there.
func failNth(point faultkv.Point, nth int) (hook func(faultkv.Op) error, seen *int) {
	seen = new(int)
	return func(op faultkv.Op) error {
		if op.Point != point {
			return nil
		}
		if *seen++; *seen == nth {
			return errInjected
		}
		return nil
	}, seen
}

// TestFault fails every engine operation of every crash case once, before and
// after it was applied. The error reaches the caller with its cause, and the
// database, opened again, is as it was before or after the transaction.
func TestFault(t *testing.T) {
	points := map[string]faultkv.Point{
		"get": faultkv.BeforeGet, "scan": faultkv.BeforeScan, "snapshot": faultkv.BeforeSnapshot,
		"commit": faultkv.BeforeCommit, "lost acknowledgement": faultkv.AfterCommit, "sync": faultkv.BeforeSync,
	}
	total := 0
	for _, c := range crashCases {
		for name, point := range points {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				step := 1
				switch {
				case raceDetector || testing.Short():
					step = 11
				case name == "get" || name == "scan":
					step = 5 // there are many, and none changes anything
				}
				for nth := 1; c.fault(t, point, nth); nth += step {
					total++
				}
			})
		}
	}
	t.Logf("%d faults", total)
}

// fault plays the case with the nth operation failing, and says whether there
// was one.
func (c *crashCase) fault(t *testing.T, point faultkv.Point, nth int) bool {
	t.Helper()
	where := fmt.Sprintf("operation %d", nth)
	engine := faultkv.New(memkv.New())
	r := openRig(t, engine, c.limits)
	db, err := Open(t.Context(), r.actor, &Options{Pragmas: c.pragmas, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.setup {
		exec(t, db, s)
	}
	states := []string{contentOf(t, db)}
	hook, seen := failNth(point, nth)
	engine.Hook(hook)
	var failure error
	for _, s := range c.steps {
		if _, failure = db.ExecContext(t.Context(), s.sql); failure != nil {
			break
		}
		engine.Hook(nil)
		// SQLite may keep the error of a rollback to itself; the database does not.
		state, err := tryContent(t.Context(), db)
		if failure = err; failure != nil {
			break
		}
		states = append(states, state)
		engine.Hook(hook)
	}
	engine.Hook(nil)
	hit := *seen >= nth
	if hit && failure != nil && !errors.Is(db.Cause(), errInjected) {
		t.Errorf("%s: %v; its cause is %v", where, failure, db.Cause())
	}
	if !hit && failure != nil {
		t.Errorf("%s: %v, without a fault", where, failure)
	}
	if err := errors.Join(db.Close(), r.actor.Close(), r.store.Close()); err != nil {
		t.Errorf("%s: closing: %v", where, err)
	}
	c.afterFault(t, engine, states, failure, where)
	return hit
}

// afterFault opens the store again: the last acknowledged state is there, or, if
// the transaction after it failed, that one's.
func (c *crashCase) afterFault(t *testing.T, engine *faultkv.Engine, states []string, failure error, where string) {
	t.Helper()
	r := openRig(t, engine, c.limits)
	db, err := Open(t.Context(), r.actor, &Options{Pragmas: c.pragmas, MaxConns: 1})
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
	if used, counted := r.actor.Used(), countedBytes(t, r.actor); used != counted {
		t.Errorf("%s: the actor believes %d bytes are used, its keys hold %d", where, used, counted)
	}
	if err := errors.Join(db.Close(), r.actor.Close(), r.store.Close(), engine.Close()); err != nil {
		t.Errorf("%s: closing: %v", where, err)
	}
}
