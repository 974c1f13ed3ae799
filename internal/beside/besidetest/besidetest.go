//go:build unix

package besidetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// ErrTaken: the seat is taken.
var ErrTaken = errors.New("taken")

// Seats are those of a course, in a store of the data model.
type Seats interface {
	// In opens the store's transaction beside tx, and reports whether a seat is taken.
	In(tx *greenroom.Tx, n int) (taken bool, err error)
	// Take takes a free seat, in that transaction.
	Take(tx *greenroom.Tx, n int) error
	// TakeAlone takes a free seat in a transaction of its own.
	TakeAlone(ctx context.Context, n int) error
	// Taken reports whether a seat is taken.
	Taken(ctx context.Context, n int) (bool, error)
	// Check returns an error that says what is wrong with the store.
	Check(ctx context.Context) error
}

// A Model opens the seats on an engine.
type Model struct {
	Open func(ctx context.Context, e kv.Engine) (Seats, error)
	// Held: the transaction holds back what it writes until the commit, so that what is written late is refused.
	Held bool
}

// Run runs the suite.
func Run(t *testing.T, m *Model) {
	t.Run("In", m.in)
	t.Run("Conflict", m.conflict)
	t.Run("ReadAlone", m.readAlone)
	t.Run("Faults", m.faults)
	t.Run("TooLate", m.tooLate)
	t.Run("Spilled", m.spilled)
}

// A world is an actor and seats on one engine.
type world struct {
	ctx   context.Context
	store *greenroom.Store
	actor *greenroom.Actor
	seats Seats
}

func (m *Model) world(t *testing.T, e kv.Engine) *world {
	t.Helper()
	w := &world{ctx: t.Context()}
	var err error
	if w.seats, err = m.Open(w.ctx, e); err != nil {
		t.Fatal(err)
	}
	if w.store, err = greenroom.New(w.ctx, e, nil); err != nil {
		t.Fatal(err)
	}
	if w.actor, err = w.store.Actor(w.ctx, "ada", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(w.actor.Close(), w.store.Close()) })
	return w
}

// take takes a seat and notes it, in a table of the actor's if sql is set and else under a key.
func (w *world) take(tx *greenroom.Tx, n int, sql bool) error {
	taken, err := w.seats.In(tx, n)
	if err != nil {
		return err
	}
	if taken {
		return ErrTaken
	}
	if err := w.seats.Take(tx, n); err != nil {
		return err
	}
	if !sql {
		return tx.Put(fmt.Appendf(nil, "seat %d", n), []byte("math"))
	}
	if _, err := tx.Exec("create table if not exists seats (n integer primary key)"); err != nil {
		return err
	}
	_, err = tx.Exec("insert into seats values (?)", n)
	return err
}

// book is take in a transaction.
func (w *world) book(n int, sql bool) error {
	return w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { return w.take(tx, n, sql) })
}

// mustBook is book of what can't fail.
func (w *world) mustBook(t *testing.T, n int, sql bool) {
	t.Helper()
	if err := w.book(n, sql); err != nil {
		t.Fatal(err)
	}
}

// has reports whether the actor, and the model, have a seat.
func (w *world) has(t *testing.T, n int, sql bool) (actor, model bool) {
	t.Helper()
	err := w.actor.View(w.ctx, func(v *greenroom.View) error {
		if sql {
			var count int
			err := v.QueryRow("select count(*) from seats where n = ?", n).Scan(&count)
			actor = err == nil && count == 1 // or no table yet
			return nil
		}
		_, err := v.Get(fmt.Appendf(nil, "seat %d", n))
		actor = err == nil
		return nil
	})
	if err == nil {
		model, err = w.seats.Taken(w.ctx, n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return actor, model
}

// expect fails unless actor and model both have a seat, or both don't have it.
func (w *world) expect(t *testing.T, n int, sql, want bool) {
	t.Helper()
	if a, m := w.has(t, n, sql); a != want || m != want {
		t.Errorf("seat %d: the actor has it: %v, the model has it: %v, want %v", n, a, m, want)
	}
}

// engines runs a test on each engine, with the actor's keys and with its database.
func (m *Model) engines(t *testing.T, test func(t *testing.T, e kv.Engine, sql bool)) {
	for name, open := range map[string]func(t *testing.T) (kv.Engine, error){
		"memory": func(*testing.T) (kv.Engine, error) { return memkv.New(), nil },
		"disk":   func(t *testing.T) (kv.Engine, error) { return pebblekv.Open(t.TempDir(), nil) },
		"postgres": func(t *testing.T) (kv.Engine, error) {
			n := pgtest.Shared(t)
			return pgkv.Open(t.Context(), n.URL("connect_timeout=60&schema="+url.QueryEscape(n.Schema())), nil)
		},
	} {
		for _, sql := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/sql=%v", name, sql), func(t *testing.T) {
				t.Parallel()
				e, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { e.Close() })
				test(t, e, sql)
			})
		}
	}
}

// in: actor and model land together, in one commit, or neither does.
func (m *Model) in(t *testing.T) {
	m.engines(t, func(t *testing.T, e kv.Engine, sql bool) {
		counted := faultkv.New(e)
		w := m.world(t, counted)
		w.mustBook(t, 1, sql) // makes the table, and opens what there is to open
		counted.Reset()
		w.mustBook(t, 2, sql)
		if c := counted.Counts(); c.Commits != 1 {
			t.Errorf("%d commits", c.Commits)
		}
		abort := errors.New("abort")
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			if err := w.take(tx, 3, sql); err != nil {
				return err
			}
			return abort
		})
		if !errors.Is(err, abort) {
			t.Errorf("got %v", err)
		}
		for n, want := range map[int]bool{1: true, 2: true, 3: false} {
			w.expect(t, n, sql, want)
		}
	})
}

// conflict: another transaction takes the seat in between. Nothing lands, the function doesn't run again, and
// the actor goes on.
func (m *Model) conflict(t *testing.T) {
	m.engines(t, func(t *testing.T, e kv.Engine, sql bool) {
		w := m.world(t, e)
		w.mustBook(t, 9, sql)
		runs := 0
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			runs++
			if err := w.take(tx, 1, sql); err != nil {
				return err
			}
			return w.seats.TakeAlone(w.ctx, 1)
		})
		if !errors.Is(err, greenroom.ErrConflict) || errors.Is(err, greenroom.ErrFenced) || runs != 1 {
			t.Fatalf("after %d runs: %v", runs, err)
		}
		if a, taken := w.has(t, 1, sql); a || !taken {
			t.Errorf("the actor has the seat: %v, the other transaction has it: %v", a, taken)
		}
		if err := w.book(1, sql); !errors.Is(err, ErrTaken) {
			t.Errorf("then: %v", err)
		}
		w.mustBook(t, 2, sql)
		w.expect(t, 2, sql, true)
	})
}

// readAlone: what only reads the model conflicts all the same, if it changes the actor; and if it changes nothing, it
// commits nothing.
func (m *Model) readAlone(t *testing.T) {
	counted := faultkv.New(memkv.New())
	w := m.world(t, counted)
	look := func(change bool) error {
		return w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			if taken, err := w.seats.In(tx, 1); err != nil || taken || !change {
				return err
			}
			if err := w.seats.TakeAlone(w.ctx, 1); err != nil {
				return err
			}
			return tx.Put([]byte("free"), []byte("yes"))
		})
	}
	w.mustBook(t, 9, false)
	counted.Reset()
	if err := look(false); err != nil || counted.Counts().Commits != 0 {
		t.Errorf("%d commits, %v", counted.Counts().Commits, err)
	}
	if err := look(true); !errors.Is(err, greenroom.ErrConflict) {
		t.Errorf("what was read has changed: %v", err)
	}
}

// crash stands for the death of the process in place of a point.
const crash = faultkv.Point(255)

// faults has each operation of the engine fail once, and the process die after each commit: actor and model never differ.
func (m *Model) faults(t *testing.T) {
	for _, sql := range []bool{false, true} {
		for name, point := range map[string]faultkv.Point{
			"get": faultkv.BeforeGet, "scan": faultkv.BeforeScan, "attempt": faultkv.BeforeAttempt, "commit": faultkv.BeforeCommit,
			"acknowledgement": faultkv.AfterCommit, "crash": crash,
		} {
			t.Run(fmt.Sprintf("%s/sql=%v", name, sql), func(t *testing.T) {
				t.Parallel()
				n := 0
				for m.fault(t, point, n, sql) {
					n++
				}
				if n == 0 && name != "scan" {
					t.Error("no operation of the kind")
				}
			})
		}
	}
}

// fault has operation n of a kind fail, and reports whether there is one.
func (m *Model) fault(t *testing.T, point faultkv.Point, n int, sql bool) bool {
	e := faultkv.New(memkv.New())
	w := m.world(t, e)
	w.mustBook(t, 1, sql)
	var f *faultkv.Fault
	if point == crash {
		e.Tear(n)
	} else {
		f = e.Fail(faultkv.Rule{Point: point, Skip: n})
	}
	err := w.book(2, sql)
	e.Heal()
	if f != nil && f.Hits() == 0 || f == nil && err == nil {
		return false
	}
	if err == nil {
		t.Fatalf("operation %d fails, and the update doesn't", n)
	}
	again, err := greenroom.New(w.ctx, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = w.actor.Close()
	if w.actor, err = again.Actor(w.ctx, "ada", nil); err != nil {
		t.Fatal(err)
	}
	if a, in := w.has(t, 2, sql); a != in || a && point != crash && point != faultkv.AfterCommit {
		t.Errorf("operation %d: the actor has it: %v, the model has it: %v", n, a, in)
	}
	if err := w.seats.Check(w.ctx); err != nil {
		t.Errorf("check: %v", err)
	}
	return true
}

// tooLate: when the function has returned, or what was held back is written, a change is an error, and not lost. Without
// anything held back a change lands that is made before the commit.
func (m *Model) tooLate(t *testing.T) {
	w := m.world(t, memkv.New())
	for _, used := range []bool{false, true} {
		var over *greenroom.Tx
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			if over = tx; !used {
				return nil
			}
			return w.take(tx, 1, false)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.seats.In(over, 1); !errors.Is(err, batch.ErrSettled) {
			t.Errorf("used %v: %v", used, err)
		}
	}
	err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
		if err := w.take(tx, 2, false); err != nil {
			return err
		}
		tx.Batch().Late(func(*batch.Batch) error { return w.seats.Take(tx, 3) }) // behind that of the model
		return nil
	})
	if m.Held && !errors.Is(err, txn.ErrUsedAfterCommit) || !m.Held && err != nil {
		t.Errorf("got %v", err)
	}
	w.expect(t, 2, false, !m.Held)
	if _, late := w.has(t, 3, false); late == m.Held {
		t.Errorf("the model has what came late: %v", late)
	}
}

// spilled: a transaction that takes several commits of the actor can't take the model along. Nothing of it lands. The next
// transaction finds the journal, and rolls it back by commits of the actor, so it is refused once more, and then the actor goes on.
func (m *Model) spilled(t *testing.T) {
	m.engines(t, func(t *testing.T, e kv.Engine, sql bool) {
		if !sql {
			t.Skip("only SQL spills")
		}
		w := m.world(t, e)
		w.mustBook(t, 1, true)
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			if err := w.take(tx, 2, true); err != nil {
				return err
			}
			_, err := tx.Exec("create table large as with recursive n(i) as (select 1 union all select i+1 from n where i < 40) select zeroblob(1000000) as b, i from n")
			return err
		})
		if !errors.Is(err, greenroom.ErrConflict) {
			t.Fatalf("got %v, want a conflict", err)
		}
		w.expect(t, 2, true, false)
		if err := w.book(3, true); err != nil {
			if !errors.Is(err, greenroom.ErrConflict) {
				t.Errorf("then: %v", err)
			}
			w.mustBook(t, 3, true)
		}
		w.expect(t, 3, true, true)
	})
}
