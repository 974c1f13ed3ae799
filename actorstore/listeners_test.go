package actorstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// changes collects what a Store tells of commits until stop is called.
func changes(s *actorstore.Store) (told *[]actorstore.Change, stop func()) {
	told = new([]actorstore.Change)
	return told, s.OnChange(func(c actorstore.Change) { *told = append(*told, c) })
}

// TestOnChange: each commit of any Store on the engine is told of once, in its order, and none that didn't land, was empty, or came after stop.
func TestOnChange(t *testing.T) {
	eng := memkv.New()
	s, other := openStore(t, eng, batch.Limits{}), openStore(t, eng, batch.Limits{})
	told, stop := changes(other)
	id := actorstore.IDFromName("a")
	var want []actorstore.Change
	expect := func(c actorstore.Change) {
		t.Helper()
		if want = append(want, c); !slices.Equal(*told, want) {
			t.Errorf("told\n%v, want\n%v", *told, want)
		}
	}
	a, err := s.Named(ctx, "a", nil)
	must(t, err)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	expect(actorstore.Change{ID: id, Name: "a", Seq: 1})
	label := func(value string) func(*actorstore.Attributes) error {
		return func(at *actorstore.Attributes) error {
			at.Labels = map[string]string{"l": value}
			return nil
		}
	}
	var b batch.Batch
	a.StageAttributes(&b, label("x"))
	must(t, a.Commit(ctx, &b))
	expect(actorstore.Change{ID: id, Name: "a", Seq: 2, Attributes: true})
	b.Reset()
	a.StageAttributes(&b, label("x")) // as it is
	b.Put(user("k"), nil)
	must(t, a.Commit(ctx, &b))
	expect(actorstore.Change{ID: id, Name: "a", Seq: 3})
	b.Reset()
	must(t, a.Commit(ctx, &b)) // empty
	b.Reset()
	refused := errors.New("refused")
	b.Late(func(*batch.Batch) error { return refused })
	if err := a.Commit(ctx, &b); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	b.Reset()
	b.Mode = batch.Ordered // in the parts that the limits make of it
	for range 3 {
		b.Put(user("k"), []byte("w"))
	}
	a.StageAttributes(&b, label("y"))
	must(t, a.Commit(ctx, &b))
	expect(actorstore.Change{ID: id, Name: "a", Seq: 4, Attributes: true})
	must(t, a.Drop(ctx))
	expect(actorstore.Change{ID: id, Name: "a", Dropped: true})
	stop()
	a, err = other.Named(ctx, "a", nil)
	must(t, err)
	must(t, errors.Join(a.Put(ctx, user("k"), nil), a.Close()))
	if !slices.Equal(*told, want) {
		t.Errorf("after stop, told %v", (*told)[len(want):])
	}
}

// TestOnChangeParts: each part of a batch is told of, and that the attributes have changed with the part that does it.
func TestOnChangeParts(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{Entries: 2})
	told, stop := changes(s)
	defer stop()
	a, err := s.Named(ctx, "a", nil)
	must(t, err)
	b := batch.Batch{Mode: batch.Ordered}
	for i := range 4 {
		b.Put(user(string(rune('a'+i))), make([]byte, 600))
	}
	a.StageAttributes(&b, func(at *actorstore.Attributes) error { at.Schema = 7; return nil })
	must(t, errors.Join(a.Commit(ctx, &b), a.Close()))
	if len(*told) < 2 || int(a.Seq()) != len(*told) {
		t.Fatalf("%d commits, told %v", a.Seq(), *told)
	}
	for i, c := range *told {
		if c.Seq != uint64(i+1) || c.Attributes != (i == 0) {
			t.Errorf("part %d: %+v", i+1, c)
		}
	}
}

// TestOnChangeFork: a fork is told of once, when it is whole.
func TestOnChangeFork(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a, err := s.Named(ctx, "a", nil)
	must(t, err)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	told, stop := changes(s)
	defer stop()
	snap, err := a.Snapshot(ctx)
	must(t, err)
	_, err = s.Fork(ctx, snap, &actorstore.ForkOptions{Name: "b"})
	must(t, errors.Join(err, snap.Close(), a.Close()))
	if want := []actorstore.Change{{ID: actorstore.IDFromName("b"), Name: "b", Seq: 1}}; !slices.Equal(*told, want) {
		t.Errorf("told %v, want %v", *told, want)
	}
}

// TestOnChangeFar: on an engine that other processes may have open, a Store tells of its own commits alone.
func TestOnChangeFar(t *testing.T) {
	var eng kv.Engine = engines.Shared(memkv.New())
	s, other := openStore(t, eng, batch.Limits{}), openStore(t, eng, batch.Limits{})
	own, stop := changes(s)
	defer stop()
	far, stopFar := changes(other)
	defer stopFar()
	a, err := s.Named(ctx, "a", nil)
	must(t, err)
	must(t, errors.Join(a.Put(ctx, user("k"), nil), a.Close()))
	if len(*own) != 1 || len(*far) != 0 {
		t.Errorf("the Store is told %v, another one %v", *own, *far)
	}
}

// TestOnChangeAllocates: a commit allocates nothing to tell of itself, with a listener or without.
func TestOnChangeAllocates(t *testing.T) {
	eng := &sink{Engine: memkv.New()}
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), nil))
	eng.forget = true
	key, page := make([]byte, 0, 16), make([]byte, 4096)
	var b batch.Batch
	commit := func() {
		pages(&b, key, page, 10)
		must(t, a.Commit(context.Background(), &b))
	}
	commit()
	none := testkit.FewestAllocs(commit)
	told := 0
	defer s.OnChange(func(actorstore.Change) { told++ })()
	if some := testkit.FewestAllocs(commit); none != 0 || some != 0 || told == 0 {
		t.Errorf("without a listener a commit allocates %v times, with one %v times; it was told of %d", none, some, told)
	}
}
