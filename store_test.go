package greenroom_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestStore: actors are made, copied, listed and removed, in a directory that is opened
// again.
func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	open := func(opts *greenroom.Options) *greenroom.Store {
		t.Helper()
		s, err := greenroom.Open(ctx, dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wants := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := greenroom.Open(ctx, dir, &greenroom.Options{MustExist: true})
	wants("no store", err, greenroom.ErrNotFound)
	s := open(nil)
	_, err = greenroom.Open(ctx, dir, nil)
	wants("opened twice", err, greenroom.ErrInUse)
	_, err = s.Actor(ctx, "shop", &greenroom.ActorOptions{MustExist: true})
	wants("no actor", err, greenroom.ErrNotFound)
	a, err := s.Actor(ctx, "shop", nil)
	must(err)
	wants("nothing written", a.View(ctx, func(*greenroom.View) error { return nil }), greenroom.ErrNotFound)
	must(a.Update(ctx, create))
	_, err = s.Actor(ctx, "shop", nil)
	wants("taken twice", err, greenroom.ErrInUse)
	wants("dropped while it is open", s.Drop(ctx, "shop"), greenroom.ErrInUse)
	must(s.Fork(ctx, "shop", "copy"))
	must(a.Update(ctx, func(tx *greenroom.Tx) error { return write(tx, "new") }))
	must(a.Close())
	must(a.Close())
	must(s.Close())

	s = open(&greenroom.Options{ReadOnly: true})
	_, err = s.Actor(ctx, "shop", nil)
	wants("read-only", err, greenroom.ErrReadOnly)
	for name, want := range map[string]int{"shop": 2, "copy": 1} {
		must(s.View(ctx, name, func(v *greenroom.View) error {
			var n int
			if err := v.QueryRow("select count(*) from t").Scan(&n); err != nil || n != want || v.Info().Name != name {
				t.Errorf("%s: %d rows, %v, want %d", v.Info().Name, n, err, want)
			}
			return nil
		}))
	}
	must(s.Close())

	s = open(nil)
	must(s.Drop(ctx, "shop"))
	wants("dropped", s.View(ctx, "shop", func(*greenroom.View) error { return nil }), greenroom.ErrNotFound)
	var names []string
	for info, err := range s.Actors(ctx, nil) {
		must(err)
		names = append(names, info.Name)
	}
	if len(names) != 1 || names[0] != "copy" {
		t.Errorf("the store has %q", names)
	}
	must(s.Close())
	must(s.Close())
}

// TestViewIsOneState: a view doesn't see what lands after it began.
func TestViewIsOneState(t *testing.T) {
	r := newRig(t, greenroom.Options{}.Limits)
	r.update(t, create)
	if err := r.actor.View(ctx, func(v *greenroom.View) error {
		r.update(t, func(tx *greenroom.Tx) error { return write(tx, "new") })
		var n int
		if err := v.QueryRow("select count(*) from t").Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows, %v", n, err)
		}
		k, err := v.Get([]byte("k"))
		if string(k) != "old" {
			t.Errorf("k=%q", k)
		}
		rows, err2 := v.Query("delete from t returning a")
		if err2 == nil {
			rows.Next()
			err2 = errors.Join(rows.Err(), rows.Close())
		}
		if err2 == nil {
			t.Error("a view can write")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestIDs: with Options.IDs an actor without a name is reached by its id, as any other
// is; without, the text of an id is a name.
func TestIDs(t *testing.T) {
	engine := memkv.New()
	defer engine.Close()
	nameless := actorstore.NewID()
	text := "id:" + nameless.String()
	put := func(value string) func(*greenroom.Tx) error {
		return func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte(value)) }
	}
	for _, ids := range []bool{false, true} {
		s, err := greenroom.New(ctx, engine, &greenroom.Options{IDs: ids})
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Actor(ctx, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		id, err := s.ID(ctx, text)
		if err != nil || id != a.Lower().ID() || ids != (id == nameless) || ids != (a.Name() == "") {
			t.Errorf("IDs %v: the actor %s is called %q, %v", ids, id, a.Name(), err)
		}
		value := fmt.Sprint("by id: ", ids)
		if err := a.Update(ctx, put(value)); err != nil {
			t.Fatal(err)
		}
		look := func(v *greenroom.View) error {
			got, err := v.Get([]byte("k"))
			below, berr := v.Lower().Get(ctx, actorstore.UserKey([]byte("k")), nil)
			if string(got) != value || string(below) != value {
				t.Errorf("IDs %v: %q, and %q below", ids, got, below)
			}
			return errors.Join(err, berr)
		}
		if err := errors.Join(s.View(ctx, text, look), a.View(ctx, look), a.Close()); err != nil {
			t.Error(err)
		}
		to := "id:" + actorstore.NewID().String()
		if err := errors.Join(s.Fork(ctx, text, to), s.View(ctx, to, look)); err != nil {
			t.Errorf("IDs %v: fork: %v", ids, err)
		}
		_, err = s.Actor(ctx, "", nil)
		wantErr(t, "an actor without a name", err, actorstore.ErrName)
		wantErr(t, "fork without a name", s.Fork(ctx, text, ""), actorstore.ErrName)
		if err := s.Fork(ctx, text, "id:brief"); errors.Is(err, actorstore.ErrID) != ids {
			t.Errorf("IDs %v: fork to a short id: %v", ids, err)
		}
		if _, err := s.Actor(ctx, "id:short", &greenroom.ActorOptions{MustExist: true}); errors.Is(err, actorstore.ErrID) != ids || err == nil {
			t.Errorf("IDs %v: a short id: %v", ids, err)
		}
		if err := s.View(ctx, "nobody", look); !errors.Is(err, greenroom.ErrNotFound) || !strings.Contains(err.Error(), `"nobody"`) {
			t.Errorf("IDs %v: no actor: %v", ids, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
