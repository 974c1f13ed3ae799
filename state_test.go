package greenroom_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// A room is a state.
type room struct {
	Guests []string `cbor:"guests"`
	Open   bool     `json:"open"`
}

// TestState: a state is a private copy, is stored when it is set, and costs nothing when it
// is what it was.
func TestState(t *testing.T) {
	r := newRig(t, batch.Limits{})
	read := func(tx *greenroom.Tx) room {
		t.Helper()
		v, err := greenroom.State[room](tx)
		must(t, err)
		return v
	}
	r.update(t, func(tx *greenroom.Tx) error {
		if v := read(tx); v.Guests != nil || v.Open {
			t.Errorf("a new actor has %+v", v)
		}
		return tx.Put([]byte("k"), nil)
	})
	must(t, r.actor.View(ctx, func(v *greenroom.View) error {
		state, err := greenroom.State[*room](v)
		if state != nil {
			t.Errorf("an actor without a record has %+v", state)
		}
		return err
	}))
	r.update(t, func(tx *greenroom.Tx) error {
		v := room{Guests: []string{"ann"}}
		must(t, greenroom.SetState(tx, v))
		v.Guests[0] = "changed"
		if got := read(tx); got.Guests[0] != "ann" {
			t.Errorf("the transaction sees %+v", got)
		}
		return greenroom.Mutate(tx, func(v *room) error { v.Open = true; return nil })
	})
	no := errors.New("no")
	r.engine.Reset()
	r.update(t, func(tx *greenroom.Tx) error {
		v := read(tx)
		v.Guests[0] = "changed"
		if again := read(tx); again.Guests[0] != "ann" || !again.Open {
			t.Errorf("a change of the copy changes the state: %+v", again)
		}
		wantErr(t, "Mutate", greenroom.Mutate(tx, func(v *room) error { v.Open = false; return no }), no)
		raw, err := tx.RawState()
		must(t, err)
		return errors.Join(tx.SetRawState(raw), greenroom.SetState(tx, read(tx)))
	})
	if c := r.engine.Counts(); c.Commits != 0 {
		t.Errorf("a state that is what it was takes %+v", c)
	}
	r.update(t, func(tx *greenroom.Tx) error {
		raw, err := tx.RawState()
		must(t, err)
		own := []byte(strings.Replace(string(raw), "ann", "bob", 1))
		must(t, tx.SetRawState(own))
		clear(own) // it is not kept
		return nil
	})
	r.update(t, func(tx *greenroom.Tx) error {
		if v := read(tx); len(v.Guests) != 1 || v.Guests[0] != "bob" || !v.Open {
			t.Errorf("the state is %+v", v)
		}
		if _, err := greenroom.State[int](tx); err == nil {
			t.Error("a room is taken for a number")
		}
		if err := greenroom.SetState(tx, make(chan int)); err == nil {
			t.Error("a channel is a state")
		}
		if err := tx.SetRawState([]byte{0xff}); err == nil {
			t.Error("damaged bytes are a state")
		}
		return nil
	})
}

// TestStateTooLarge: a state that is too large fails the transaction, of which nothing lands.
func TestStateTooLarge(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	err := r.actor.Update(ctx, func(tx *greenroom.Tx) error {
		must(t, write(tx, "new"))
		return greenroom.SetState(tx, strings.Repeat("x", 200_000))
	})
	wantErr(t, "Update", err, greenroom.ErrTooLarge)
	if got := r.holds(t); got != has(1, "old") {
		t.Errorf("the actor has %s", got)
	}
}

// TestInput: an actor keeps the input of its creation, whatever is said later.
func TestInput(t *testing.T) {
	r := newRig(t, batch.Limits{})
	for name, create := range map[string]bool{"late": false, "with its record": true} {
		for _, input := range []string{"\x65hello", "\x65other"} {
			own := []byte(input)
			a, err := r.store.Actor(ctx, name, &greenroom.ActorOptions{Create: create, Input: own})
			must(t, err)
			r.engine.Reset()
			must(t, second(a.Record(ctx)))
			if n := r.engine.Counts().Commits; (n == 1) != (create && input == "\x65hello") || n > 1 {
				t.Errorf("%s: opening the record took %d commits", name, n)
			}
			clear(own) // it was taken
			must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
				var got string
				if err := tx.Input(&got); err != nil || got != "hello" {
					t.Errorf("%s: the input is %q, %v", name, got, err)
				}
				return greenroom.SetState(tx, "s")
			}))
			must(t, a.Close())
		}
	}
	r.update(t, func(tx *greenroom.Tx) error {
		got := "as it was"
		if err := tx.Input(&got); err != nil || got != "as it was" {
			t.Errorf("without one the input is %q, %v", got, err)
		}
		return nil
	})
}

// TestInputLandsFirst: the first Update that writes anything stores the input, in its one
// commit, and one that writes nothing does not.
func TestInputLandsFirst(t *testing.T) {
	read := func(tx *greenroom.Tx) error { return tx.QueryRow("select 1").Scan(new(int)) }
	for name, write := range map[string]func(tx *greenroom.Tx) error{
		"key": func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) },
		"late": func(tx *greenroom.Tx) error {
			tx.Batch().Late(func(b *batch.Batch) error {
				b.Late(func(b *batch.Batch) error { b.Put(actorstore.UserKey([]byte("k")), nil); return nil })
				return nil
			})
			return nil
		},
		"sql": func(tx *greenroom.Tx) error { return second(tx.Exec("insert into t values (1)")) },
		"both": func(tx *greenroom.Tx) error {
			return errors.Join(tx.Put([]byte("k"), nil), second(tx.Exec("insert into t values (1)")), greenroom.SetState(tx, "s"))
		},
	} {
		r := newRig(t, batch.Limits{})
		open := func(input string) *greenroom.Actor {
			a, err := r.store.Actor(ctx, name, &greenroom.ActorOptions{Input: []byte(input)})
			must(t, err)
			return a
		}
		commits := func(a *greenroom.Actor, fn func(tx *greenroom.Tx) error) int64 {
			r.engine.Reset()
			must(t, a.Update(ctx, fn))
			return int64(r.engine.Counts().Commits)
		}
		a := open("") // has a database, so that reading it writes nothing
		must(t, a.Update(ctx, func(tx *greenroom.Tx) error { return second(tx.Exec("create table t (x)")) }))
		must(t, a.Close())
		a = open("\x65first")
		if n := commits(a, read); n != 0 {
			t.Errorf("%s: an Update that reads took %d commits", name, n)
		}
		must(t, a.Close())
		a = open("\x65hello")
		if n := commits(a, write); n != 1 {
			t.Errorf("%s: the first took %d commits, want 1", name, n)
		}
		must(t, a.Close())
		a = open("\x65other")
		must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
			var got string
			if err := tx.Input(&got); err != nil || got != "hello" {
				t.Errorf("%s: the input is %q, %v", name, got, err)
			}
			return nil
		}))
		must(t, a.Close())
	}
}

// TestInputRefused: an input that is not CBOR is refused when the actor is opened.
func TestInputRefused(t *testing.T) {
	r := newRig(t, batch.Limits{})
	if _, err := r.store.Actor(ctx, "new", &greenroom.ActorOptions{Input: []byte("\xff")}); err == nil {
		t.Error("it was taken")
	}
	a, err := r.store.Actor(ctx, "new", nil)
	must(t, err)
	must(t, a.Close())
}

// TestViewIsEverything: one view shows every part as of the moment at which it began.
func TestViewIsEverything(t *testing.T) {
	r := newRig(t, batch.Limits{})
	r.update(t, create)
	must(t, r.actor.View(ctx, func(v *greenroom.View) error {
		r.update(t, func(tx *greenroom.Tx) error { return write(tx, "new") })
		messages, conns := 0, 0
		for _, err := range v.Messages(nil) {
			messages++
			must(t, err)
		}
		for _, err := range v.Connections() {
			conns++
			must(t, err)
		}
		if got, err := describe(v, messages, conns); err != nil || got != has(1, "old") {
			t.Errorf("the view has %s, %v", got, err)
		}
		if spans := events(t, v); spans != "wrote old;" {
			t.Errorf("the view has spans with %q", spans)
		}
		return nil
	}))
}

// events returns the events of the spans of updates, in order.
func events(t testing.TB, v *greenroom.View) (all string) {
	t.Helper()
	found, err := v.Spans(traces.Query{End: time.Now().Add(time.Hour)})
	must(t, err)
	for _, s := range found.Spans {
		for _, e := range s.Events {
			if e.Name == "wrote" {
				all += e.Name + " " + e.Attributes[0].Value.String() + ";"
			}
		}
	}
	return all
}

// TestSpans: spans land with what writes, SQL alone too, cost no commit of their own, and
// stay recorded if the transaction fails.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, batch.Limits{})
		r.update(t, create)
		no := errors.New("no")
		wrote := func(tx *greenroom.Tx, value string) { tx.Span().Event("wrote", traces.String("value", value)) }
		wantErr(t, "Update", r.actor.Update(ctx, func(tx *greenroom.Tx) error { wrote(tx, "failed"); return no }), no)
		r.engine.Reset()
		r.update(t, func(tx *greenroom.Tx) error {
			wrote(tx, "nothing")
			m, err := tx.Receive("of no name")
			if m != nil {
				t.Errorf("received %+v", m)
			}
			return errors.Join(err, tx.QueryRow("select 1 from t").Scan(new(int)))
		})
		if c := r.engine.Counts(); c.Commits != 0 {
			t.Errorf("a transaction that writes nothing took %+v", c)
		}
		inserts := func(value string) {
			r.update(t, func(tx *greenroom.Tx) error {
				wrote(tx, value)
				_, err := tx.Exec("insert into t(b) values ('new')")
				return err
			})
		}
		shows := func(want string) {
			must(t, r.actor.View(ctx, func(v *greenroom.View) error {
				if got := events(t, v); got != want {
					t.Errorf("recorded %q, want %q", got, want)
				}
				return nil
			}))
		}
		time.Sleep(time.Second)
		inserts("sql")
		if c := r.engine.Counts(); c.Commits != 1 {
			t.Errorf("a transaction with SQL took %+v", c)
		}
		const sql = "wrote old;wrote failed;wrote nothing;wrote sql;"
		shows(sql)
		// What follows at once lands with a later one.
		inserts("soon")
		shows(sql)
		time.Sleep(time.Second)
		inserts("later")
		shows(sql + "wrote soon;wrote later;")
		without, err := r.store.Actor(ctx, "without", nil)
		must(t, err)
		wantErr(t, "Traces", second(without.Traces(ctx)), greenroom.ErrUnsupported)
		must(t, without.Update(ctx, func(tx *greenroom.Tx) error {
			wrote(tx, "nowhere")
			_, err := tx.Enqueue(queue.Send{Name: "m"})
			return err
		}))
		must(t, without.Close())
	})
}

// TestViewOptions: a view of an actor opens its database as the actor does.
func TestViewOptions(t *testing.T) {
	r := newRig(t, batch.Limits{})
	a, err := r.store.Actor(ctx, "backwards", &greenroom.ActorOptions{DB: &greenroom.DBOptions{Extensions: []vfs.Extension{func(c *sqlite3.Conn) error {
		return c.CreateCollation("backwards", func(a, b []byte) int { return bytes.Compare(b, a) })
	}}}})
	must(t, err)
	must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Exec("create table t(x collate backwards); insert into t values ('a'), ('b')")
		return err
	}))
	var first string
	must(t, a.View(ctx, func(v *greenroom.View) error { return v.QueryRow("select x from t order by x").Scan(&first) }))
	if first != "b" {
		t.Errorf("the first is %s", first)
	}
	must(t, a.Close())
}

// TestSpansOfFullActor: an actor that may store no more still lands what makes it smaller,
// with its spans recorded.
func TestSpansOfFullActor(t *testing.T) {
	r := newRig(t, batch.Limits{Storage: 300_000})
	key := func(i int) []byte { return []byte{byte(i >> 8), byte(i)} }
	var err error
	for i := 0; err == nil; i++ {
		err = r.actor.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put(key(i), make([]byte, 1000)) })
	}
	wantErr(t, "a full actor", err, greenroom.ErrQuota)
	for i := range 20 {
		r.update(t, func(tx *greenroom.Tx) error {
			tx.Span().Event("deletes", traces.String("why", strings.Repeat("x", 1000)))
			return tx.Delete(key(i))
		})
	}
}
