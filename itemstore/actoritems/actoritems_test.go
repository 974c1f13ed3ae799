package actoritems_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/itemstore/actoritems"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Seat is one of a course; it has a version.
type Seat struct {
	_       struct{} `path:"/course-:Course/seat-:N, /holder-:Holder/course-:Course/seat-:N"`
	Course  string
	N       int
	Holder  string
	Version itemstore.Version `item:"modifiedversion"`
}

// A world is an actor and a store of items on one engine.
type world struct {
	ctx    context.Context
	engine kv.Engine
	store  *greenroom.Store
	actor  *greenroom.Actor
	seats  *itemstore.Store
}

func newWorld(t testing.TB, e kv.Engine) *world {
	t.Helper()
	w := &world{ctx: t.Context(), engine: e}
	schema, err := itemstore.NewSchema(1, itemstore.TypeOf[Seat](nil))
	if err != nil {
		t.Fatal(err)
	}
	if w.seats, err = itemstore.Open(w.ctx, e, "seats", schema, nil); err != nil {
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

// book takes a seat and notes it, in a table of the actor's if sql is set and else under a key.
func (w *world) book(tx *greenroom.Tx, n int, sql bool) (*Seat, error) {
	items, err := actoritems.In(tx, w.seats)
	if err != nil {
		return nil, err
	}
	path := itemstore.At("course", "math", "seat", n)
	if taken, err := items.Items(tx, path); err != nil || len(taken) > 0 {
		return nil, errors.Join(err, errTaken)
	}
	seat := &Seat{Course: "math", N: n, Holder: "ada"}
	if err := items.Put(tx, seat, nil); err != nil {
		return nil, err
	}
	if !sql {
		return seat, tx.Put(fmt.Appendf(nil, "seat %d", n), []byte("math"))
	}
	if _, err := tx.Exec("create table if not exists seats (n integer primary key)"); err != nil {
		return nil, err
	}
	_, err = tx.Exec("insert into seats values (?)", n)
	return seat, err
}

var errTaken = errors.New("taken")

// crash stands for the death of the process in place of a point.
const crash = faultkv.Point(255)

// has reports whether the actor, and the items, have a seat.
func (w *world) has(t testing.TB, n int, sql bool) (actor, items bool) {
	t.Helper()
	err := w.actor.View(w.ctx, func(v *greenroom.View) error {
		if sql {
			var count int
			err := v.QueryRow("select count(*) from seats where n = ?", n).Scan(&count)
			actor = count == 1
			if err != nil {
				actor = false // no table yet
			}
			return nil
		}
		_, err := v.Get(fmt.Appendf(nil, "seat %d", n))
		actor = err == nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.seats.Items(w.ctx, itemstore.At("holder", "ada", "course", "math", "seat", n))
	if err != nil {
		t.Fatal(err)
	}
	return actor, len(list) == 1
}

func engines(t *testing.T, test func(t *testing.T, e kv.Engine, sql bool)) {
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

// TestIn: actor and items land together, in one commit, or neither does.
func TestIn(t *testing.T) {
	engines(t, func(t *testing.T, e kv.Engine, sql bool) {
		counted := faultkv.New(e)
		w := newWorld(t, counted)
		// The first transaction makes the table, and opens what there is to open.
		if err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 1, sql); return err }); err != nil {
			t.Fatal(err)
		}
		counted.Reset()
		var seat *Seat
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) (err error) {
			seat, err = w.book(tx, 2, sql)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if c := counted.Counts(); c.Commits != 1 {
			t.Errorf("%d commits", c.Commits)
		}
		if seat.Version == (itemstore.Version{}) {
			t.Error("the item has no version")
		}
		abort := errors.New("abort")
		err = w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			if _, err := w.book(tx, 3, sql); err != nil {
				return err
			}
			return abort
		})
		if !errors.Is(err, abort) {
			t.Errorf("got %v", err)
		}
		for n, want := range map[int]bool{1: true, 2: true, 3: false} {
			if a, i := w.has(t, n, sql); a != want || i != want {
				t.Errorf("seat %d: the actor has it: %v, the items have it: %v, want %v", n, a, i, want)
			}
		}
	})
}

// TestConflict: another transaction takes the seat in between. Nothing lands, the function doesn't run again, and
// the actor goes on.
func TestConflict(t *testing.T) {
	engines(t, func(t *testing.T, e kv.Engine, sql bool) {
		w := newWorld(t, e)
		if err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 9, sql); return err }); err != nil {
			t.Fatal(err)
		}
		runs := 0
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			runs++
			if _, err := w.book(tx, 1, sql); err != nil {
				return err
			}
			return w.seats.Put(w.ctx, &Seat{Course: "math", N: 1, Holder: "bo"}, nil)
		})
		if !errors.Is(err, greenroom.ErrConflict) || errors.Is(err, greenroom.ErrFenced) || runs != 1 {
			t.Fatalf("after %d runs: %v", runs, err)
		}
		if a, i := w.has(t, 1, sql); a || i {
			t.Errorf("the actor has the seat: %v, the items have it: %v", a, i)
		}
		err = w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 1, sql); return err })
		if !errors.Is(err, errTaken) {
			t.Errorf("then: %v", err)
		}
		err = w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 2, sql); return err })
		if err != nil {
			t.Errorf("another seat: %v", err)
		}
		if a, i := w.has(t, 2, sql); !a || !i {
			t.Errorf("the actor has the other seat: %v, the items have it: %v", a, i)
		}
	})
}

// TestReadAlone: what only reads items conflicts all the same, if it changes the actor; and if it changes nothing, it commits nothing.
func TestReadAlone(t *testing.T) {
	ctx := t.Context()
	counted := faultkv.New(memkv.New())
	w := newWorld(t, counted)
	look := func(change bool) error {
		return w.actor.Update(ctx, func(tx *greenroom.Tx) error {
			items, err := actoritems.In(tx, w.seats)
			if err != nil {
				return err
			}
			if list, err := items.Items(tx, "/course-math/seat-1"); err != nil || len(list) > 0 {
				return errors.Join(err, errTaken)
			}
			if !change {
				return nil
			}
			if err := w.seats.Put(ctx, &Seat{Course: "math", N: 1, Holder: "bo"}, nil); err != nil {
				return err
			}
			return tx.Put([]byte("free"), []byte("yes"))
		})
	}
	if err := w.actor.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("a"), nil) }); err != nil {
		t.Fatal(err)
	}
	counted.Reset()
	if err := look(false); err != nil || counted.Counts().Commits != 0 {
		t.Errorf("%d commits, %v", counted.Counts().Commits, err)
	}
	if err := look(true); !errors.Is(err, greenroom.ErrConflict) {
		t.Errorf("what was read has changed: %v", err)
	}
}

// TestFaults has each operation of the engine fail once, and the process die after each commit: actor and items never differ.
func TestFaults(t *testing.T) {
	for _, sql := range []bool{false, true} {
		for name, point := range map[string]faultkv.Point{"get": faultkv.BeforeGet, "scan": faultkv.BeforeScan, "attempt": faultkv.BeforeAttempt, "commit": faultkv.BeforeCommit, "acknowledgement": faultkv.AfterCommit, "crash": crash} {
			t.Run(fmt.Sprintf("%s/sql=%v", name, sql), func(t *testing.T) {
				t.Parallel()
				for n := 0; ; n++ {
					e := faultkv.New(memkv.New())
					w := newWorld(t, e)
					if err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 1, sql); return err }); err != nil {
						t.Fatal(err)
					}
					var f *faultkv.Fault
					if point == crash {
						e.Tear(n)
					} else {
						f = e.Fail(faultkv.Rule{Point: point, Skip: n})
					}
					err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 2, sql); return err })
					e.Heal()
					if f != nil && f.Hits() == 0 || f == nil && err == nil {
						if n == 0 && name != "scan" {
							t.Error("no operation of the kind")
						}
						return
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
					if a, i := w.has(t, 2, sql); a != i || a && point != crash && point != faultkv.AfterCommit {
						t.Errorf("operation %d: the actor has it: %v, the items have it: %v", n, a, i)
					}
					if problems, err := w.seats.Check(w.ctx); err != nil || len(problems) > 0 {
						t.Errorf("check: %v, %v", problems, err)
					}
				}
			})
		}
	}
}

// TestTooLate: when the function has returned, or the items are written, what is put is an error, and not lost.
func TestTooLate(t *testing.T) {
	w := newWorld(t, memkv.New())
	for _, used := range []bool{false, true} {
		var over *greenroom.Tx
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			if over = tx; !used {
				return nil
			}
			_, err := w.book(tx, 1, false)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := actoritems.In(over, w.seats); !errors.Is(err, batch.ErrSettled) {
			t.Errorf("used %v: %v", used, err)
		}
	}
	err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
		if _, err := w.book(tx, 2, false); err != nil {
			return err
		}
		tx.Batch().Late(func(*batch.Batch) error { // behind that of the items
			_, err := w.book(tx, 3, false)
			return err
		})
		return nil
	})
	if !errors.Is(err, txn.ErrUsedAfterCommit) {
		t.Errorf("got %v", err)
	}
	for _, n := range []int{2, 3} {
		if a, i := w.has(t, n, false); a || i {
			t.Errorf("seat %d: the actor has it: %v, the items have it: %v", n, a, i)
		}
	}
}

// TestSpilled: a transaction that takes several commits of the actor can't take items along. Nothing of it lands. The next
// transaction finds the journal, and rolls it back by commits of the actor, so it is refused once more, and then the actor goes on.
func TestSpilled(t *testing.T) {
	engines(t, func(t *testing.T, e kv.Engine, sql bool) {
		if !sql {
			t.Skip("only SQL spills")
		}
		w := newWorld(t, e)
		if err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 1, true); return err }); err != nil {
			t.Fatal(err)
		}
		err := w.actor.Update(w.ctx, func(tx *greenroom.Tx) error {
			if _, err := w.book(tx, 2, true); err != nil {
				return err
			}
			_, err := tx.Exec("create table large as with recursive n(i) as (select 1 union all select i+1 from n where i < 40) select zeroblob(1000000) as b, i from n")
			return err
		})
		if !errors.Is(err, greenroom.ErrConflict) {
			t.Fatalf("got %v, want a conflict", err)
		}
		if a, i := w.has(t, 2, true); a || i {
			t.Errorf("the actor has it: %v, the items have it: %v", a, i)
		}
		book := func() error {
			return w.actor.Update(w.ctx, func(tx *greenroom.Tx) error { _, err := w.book(tx, 3, true); return err })
		}
		if err := book(); err != nil && !errors.Is(err, greenroom.ErrConflict) {
			t.Errorf("then: %v", err)
		} else if err != nil {
			if err := book(); err != nil {
				t.Errorf("and then: %v", err)
			}
		}
		if a, i := w.has(t, 3, true); !a || !i {
			t.Errorf("the actor has the next one: %v, the items have it: %v", a, i)
		}
	})
}
