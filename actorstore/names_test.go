package actorstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestNamed(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, batch.Limits{})
		a, err := s.Named(ctx, "lobby", nil)
		must(t, err)
		if a.ID() != actorstore.IDFromName("lobby") || a.Name() != "lobby" {
			t.Errorf("got %v, name %q", a.ID(), a.Name())
		}
		if _, err := s.Lookup(ctx, "lobby"); !errors.Is(err, actorstore.ErrUnknownActor) {
			t.Errorf("before the first commit: got %v, want %v", err, actorstore.ErrUnknownActor)
		}
		must(t, a.Put(ctx, user("k"), nil))
		if id, err := s.Lookup(ctx, "lobby"); id != a.ID() || err != nil {
			t.Errorf("after it: got %v, %v", id, err)
		}
		must(t, a.Put(ctx, user("k"), nil)) // the name is recorded once
		must(t, a.Close())
		a, err = s.Actor(ctx, actorstore.IDFromName("lobby"), nil)
		must(t, err)
		if a.Name() != "lobby" {
			t.Errorf("opened by id, its name is %q", a.Name())
		}
		must(t, a.Close())
	})
}

// TestNameOfOtherID: a name leads to the actor that has it, whatever its id.
func TestNameOfOtherID(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), nil))
	must(t, a.Close())
	a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "n"}) // exists: recorded at once
	must(t, err)
	must(t, a.Close())
	a, err = s.Named(ctx, "n", &actorstore.ActorOptions{MustExist: true, Name: "ignored"})
	must(t, err)
	if a.ID() != testID || a.Seq() != 1 {
		t.Errorf("the name leads to %v, seq %d", a.ID(), a.Seq())
	}
	must(t, a.Close())
	if _, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "m"}); !errors.Is(err, actorstore.ErrNameTaken) {
		t.Errorf("a second name: got %v, want %v", err, actorstore.ErrNameTaken)
	}
	_, err = s.Actor(ctx, actorstore.NewID(), &actorstore.ActorOptions{Name: "n"})
	var taken *actorstore.TakenError
	if !errors.As(err, &taken) || *taken != (actorstore.TakenError{Name: "n", ID: testID}) || !errors.Is(err, actorstore.ErrNameTaken) {
		t.Errorf("a name that is taken: got %v, want that %v has it", err, testID)
	}
	// Nor does it matter that the id which the name would have is in use.
	other, err := s.Actor(ctx, actorstore.IDFromName("n"), nil)
	must(t, err)
	defer func() { must(t, other.Close()) }()
	a, err = s.Named(ctx, "n", nil)
	must(t, err)
	if a.ID() != testID {
		t.Errorf("the name leads to %v", a.ID())
	}
	if _, err := s.Named(ctx, "n", nil); !errors.Is(err, actorstore.ErrInUse) {
		t.Errorf("an actor that is open: got %v, want %v", err, actorstore.ErrInUse)
	}
	must(t, a.Close())
	if _, err := s.Named(ctx, "", nil); !errors.Is(err, actorstore.ErrName) {
		t.Errorf("no name: got %v, want %v", err, actorstore.ErrName)
	}
}

// TestNamedReads: an opening by name takes one read, where an engine reads several ranges at once,
// and one more for an actor of another id.
func TestNamedReads(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "other"})
	must(t, err)
	must(t, a.Put(ctx, user("k"), nil))
	must(t, a.Close())
	for range 2 {
		for name, want := range map[string]int64{"n": 1, "other": 2} {
			eng.Reset()
			a, err := s.Named(ctx, name, nil)
			must(t, err)
			if c := eng.Counts(); c.Scans != want || c.Gets+c.Snapshots != 0 {
				t.Errorf("to open %q took %+v, want %d reads", name, c, want)
			}
			must(t, a.Put(ctx, user("k"), nil))
			must(t, a.Close())
		}
	}
}

// TestNameRace: of two new actors that want the same name, the first commit wins;
// the other writes nothing.
func TestNameRace(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	var actors [2]*actorstore.Actor
	for i := range actors {
		a, err := s.Actor(ctx, actorstore.NewID(), &actorstore.ActorOptions{Name: "n"})
		must(t, err)
		defer func() { must(t, a.Close()) }()
		actors[i] = a
	}
	must(t, actors[1].Put(ctx, user("k"), nil))
	if err := actors[0].Put(ctx, user("k"), nil); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("got %v, want %v", err, actorstore.ErrFenced)
	}
	if id, err := s.Lookup(ctx, "n"); id != actors[1].ID() || err != nil {
		t.Errorf("got %v, %v", id, err)
	}
	if _, err := s.View(ctx, actors[0].ID()); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("got %v, want %v", err, actorstore.ErrUnknownActor)
	}
}

// TestActors: more actors than a page has rows, some with a name.
func TestActors(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	want := map[actorstore.ID]actorstore.ActorInfo{}
	var names []string
	for i := range actorstore.PageRows + 50 {
		id, opts := actorstore.NewID(), &actorstore.ActorOptions{}
		if i%2 == 0 {
			opts.Name = fmt.Sprintf("actor %04d \x00 日本", i)
			names = append(names, opts.Name)
		}
		a, err := s.Actor(ctx, id, opts)
		must(t, err)
		must(t, a.Apply(ctx, put("k", strings.Repeat("v", i))))
		must(t, a.Close())
		want[id] = actorstore.ActorInfo{ID: id, Name: opts.Name, Created: clock(), Used: int64(4 + i), Seq: 1, Epoch: 1}
	}
	eng.Reset()
	for info, err := range s.Actors(ctx, nil) {
		must(t, err)
		w, ok := want[info.ID]
		if !ok || !info.Created.Equal(w.Created) {
			t.Fatalf("got %+v, want %+v", info, w)
		}
		if info.Created, info.Position = w.Created, ""; !reflect.DeepEqual(info, w) {
			t.Fatalf("got %+v, want %+v", info, w)
		}
		delete(want, info.ID)
	}
	if len(want) != 0 {
		t.Errorf("%d actors were not listed", len(want))
	}
	if c := eng.Counts(); c != (faultkv.Counts{Scans: 2}) {
		t.Errorf("it took %+v, want 2 pages", c)
	}
	var got []string
	for n, err := range s.Names(ctx) {
		must(t, err)
		if a, err := s.Lookup(ctx, n.Name); a != n.ID || err != nil || !n.Created.Equal(clock()) {
			t.Errorf("%+v: %v, %v", n, a, err)
		}
		got = append(got, n.Name)
	}
	if !slices.Equal(got, names) {
		t.Errorf("%d names, want %d in order", len(got), len(names))
	}
	for range s.Actors(ctx, nil) {
		break // the sequences must take no for an answer
	}
	for range s.Names(ctx) {
		break
	}
}

func TestNamesDamaged(t *testing.T) {
	for name, op := range map[string]kv.Op{
		"row": kv.Set(layout.NameKey("n"), []byte{1}),
		"key": kv.Set(append(layout.NameKey("n"), 0x14), nil),
	} {
		eng := memkv.New()
		s := openStore(t, eng, batch.Limits{})
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{op}}))
		failed := false
		for _, err := range s.Names(ctx) {
			failed = errors.Is(err, actorstore.ErrCorrupt)
		}
		if !failed {
			t.Errorf("%s: Names noticed nothing", name)
		}
	}
}

// TestIDs: every actor that exists is there, whatever its head looks like.
func TestIDs(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	want := map[actorstore.ID]bool{}
	for i := range actorstore.PageRows + 7 {
		a, err := s.Actor(ctx, actorstore.NewID(), nil)
		must(t, err)
		must(t, a.Apply(ctx, put("k", "v")))
		must(t, a.Close())
		want[a.ID()] = true
		if i%100 == 0 {
			must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(layout.RecordKey(layout.ID(a.ID()), layout.PartHead), []byte("damaged"))}}))
		}
	}
	// Claimed twice, and never written to.
	openActor(t, s)
	openActor(t, openStore(t, eng, batch.Limits{}))
	n := 0
	for id, err := range s.IDs(ctx) {
		must(t, err)
		if n++; !want[id] {
			t.Errorf("%s is no actor, or was yielded before", id)
		}
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("%d actors are missing of %d", len(want), n)
	}
	must(t, eng.Close())
	for _, err := range s.IDs(ctx) {
		if !errors.Is(err, kv.ErrClosed) {
			t.Errorf("got %v, want %v", err, kv.ErrClosed)
		}
	}
}

// TestOpenError: what can't be opened is named as the caller did, after one prefix.
func TestOpenError(t *testing.T) {
	ctx := t.Context()
	s, err := actorstore.Open(ctx, memkv.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Named(ctx, "shop", &actorstore.ActorOptions{MustExist: true})
	if want := "actorstore: open actor shop: unknown actor"; err == nil || err.Error() != want || !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("by name: got %v, want %s", err, want)
	}
	_, err = s.Actor(ctx, testID, &actorstore.ActorOptions{MustExist: true})
	if want := "actorstore: open actor " + testID.String() + ": unknown actor"; err == nil || err.Error() != want {
		t.Errorf("by id: got %v, want %s", err, want)
	}
}
