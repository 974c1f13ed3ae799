package actorstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// notes returns the notes that a handle's newest state has, as key=value.
func notes(t testing.TB, a *actorstore.Actor, prefix string) []string {
	t.Helper()
	s, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	return notesIn(t, s, prefix)
}

func notesIn(t testing.TB, s *actorstore.Snapshot, prefix string) []string {
	t.Helper()
	all := []string{}
	for n, err := range s.Notes(ctx, []byte(prefix)) {
		must(t, err)
		all = append(all, fmt.Sprintf("%s=%s", n.Key, n.Value))
	}
	return all
}

func stageNote(t testing.TB, a *actorstore.Actor, b *batch.Batch, key, value string) {
	t.Helper()
	v := []byte(value)
	if value == "" {
		v = nil
	}
	must(t, a.StageNote(b, []byte(key), v))
}

func TestNotes(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, batch.Limits{})
		a := openActor(t, s)
		var b batch.Batch
		stageNote(t, a, &b, "x1", "one")
		stageNote(t, a, &b, "y", "two")
		b.Put(user("k"), []byte("v"))
		must(t, a.Commit(ctx, &b))
		used := a.Used()
		before, err := a.Snapshot(ctx)
		must(t, err)
		defer func() { must(t, before.Close()) }()

		// Alone, and staged by a Late function.
		var c batch.Batch
		c.Late(func(b *batch.Batch) error { return a.StageNote(b, []byte("x2"), []byte("three")) })
		stageNote(t, a, &c, "y", "")
		must(t, a.Commit(ctx, &c))
		if got, want := notes(t, a, ""), []string{"x1=one", "x2=three"}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := notesIn(t, before, ""), []string{"x1=one", "y=two"}; !reflect.DeepEqual(got, want) {
			t.Errorf("the snapshot shows %q, want %q", got, want)
		}
		if got := notes(t, a, "x2"); !reflect.DeepEqual(got, []string{"x2=three"}) {
			t.Errorf("with a prefix: %q", got)
		}
		// They are no keys.
		must(t, a.DeleteRange(ctx, nil, nil))
		if got := notes(t, a, ""); len(got) != 2 || a.Used() != 0 || used != int64(len(user("k"))+2+1) {
			t.Errorf("left are %q, used %d, before %d", got, a.Used(), used)
		}
		pages, err := a.PageSnapshot(ctx)
		must(t, err)
		for _, err := range pages.Notes(ctx, nil) {
			if !errors.Is(err, actorstore.ErrPagesOnly) {
				t.Errorf("got %v", err)
			}
		}
		must(t, pages.Close())
		soundStore(t, s)
		must(t, a.Drop(ctx))
		if got := notes(t, openActor(t, s), ""); len(got) != 0 {
			t.Errorf("left of a dropped actor: %q", got)
		}
	})
}

// soundStore fails the test if a check finds anything.
func soundStore(t testing.TB, s *actorstore.Store) {
	t.Helper()
	for f, err := range s.Check(ctx) {
		must(t, err)
		t.Errorf("check: %s", f)
	}
}

// TestNotesFail lands nothing of a batch that fails, then or later.
func TestNotesFail(t *testing.T) {
	e := faultkv.New(memkv.New())
	s := openStore(t, e, batch.Limits{})
	a := openActor(t, s)
	wrong := errors.New("late")
	for _, fail := range []func(b *batch.Batch){
		func(b *batch.Batch) { b.Late(func(*batch.Batch) error { return wrong }) },
		func(b *batch.Batch) { b.Put(user("k"), make([]byte, 1<<20)) },
		func(*batch.Batch) { e.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge}) },
	} {
		var b batch.Batch
		stageNote(t, a, &b, "n", "v")
		fail(&b)
		if err := a.Commit(ctx, &b); err == nil {
			t.Error("the commit succeeded")
		}
		must(t, a.Put(ctx, user("other"), nil))
		if got := notes(t, a, ""); len(got) != 0 {
			t.Errorf("got %q", got)
		}
	}
	var b batch.Batch
	for _, n := range []actorstore.Note{{}, {Key: make([]byte, actorstore.MaxNoteKey+1)}, {Key: []byte("k"), Value: make([]byte, actorstore.MaxNoteValue+1)}} {
		if err := a.StageNote(&b, n.Key, n.Value); !errors.Is(err, actorstore.ErrNote) {
			t.Errorf("a key of %d bytes and a value of %d: %v", len(n.Key), len(n.Value), err)
		}
	}
}

// TestNotesOrdered has notes land with the last part of a batch.
func TestNotesOrdered(t *testing.T) {
	e := faultkv.New(memkv.New())
	s := openStore(t, e, batch.Limits{Entries: 2})
	a := openActor(t, s)
	b := batch.Batch{Mode: batch.Ordered}
	stageNote(t, a, &b, "n", "v")
	for i := range 5 {
		b.Put(user(fmt.Sprint(i)), nil)
	}
	commits := 0
	e.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.AfterApply {
			commits++
			if got := len(notes(t, a, "")); got != map[bool]int{true: 1}[commits == 3] {
				t.Errorf("after commit %d there are %d notes", commits, got)
			}
		}
		return nil
	})
	must(t, a.Commit(ctx, &b))
	if e.Hook(nil); commits != 3 {
		t.Errorf("%d commits", commits)
	}
	// Notes alone are one commit, whatever the mode.
	alone := batch.Batch{Mode: batch.Ordered}
	committed := false
	alone.OnCommit(func() { committed = true })
	stageNote(t, a, &alone, "alone", "v")
	must(t, a.Commit(ctx, &alone))
	if got := len(notes(t, a, "")); got != 2 || !committed {
		t.Errorf("%d notes are stored, want 2; the hook for success has run: %v", got, committed)
	}
}

func TestNotesFork(t *testing.T) {
	for _, n := range []int{3, 2*actorstore.NotesOfCommit + 1} {
		s := openStore(t, memkv.New(), batch.Limits{})
		a := openActor(t, s)
		var b batch.Batch
		for i := range n {
			stageNote(t, a, &b, fmt.Sprintf("%05d", i), "v")
		}
		must(t, a.Commit(ctx, &b))
		snap, err := a.Snapshot(ctx)
		must(t, err)
		id, err := s.Fork(ctx, snap, nil)
		must(t, err)
		must(t, snap.Close())
		fork, err := s.Actor(ctx, id, nil)
		must(t, err)
		if got, want := notes(t, fork, ""), notes(t, a, ""); !reflect.DeepEqual(got, want) || len(got) != n {
			t.Errorf("%d notes, the fork has %d", n, len(got))
		}
		soundStore(t, s)
	}
}

// TestNotesForkCutOff removes what a fork that was cut off has left.
func TestNotesForkCutOff(t *testing.T) {
	e := faultkv.New(memkv.New())
	s := openStore(t, e, batch.Limits{})
	a := openActor(t, s)
	var b batch.Batch
	for i := range 2 * actorstore.NotesOfCommit {
		stageNote(t, a, &b, fmt.Sprintf("%05d", i), "v")
	}
	must(t, a.Commit(ctx, &b))
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	to := actorstore.NewID()
	e.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Times: faultkv.Forever, Match: faultkv.Key(layout.RecordKey(layout.ID(to), layout.PartHead))})
	if _, err := s.Fork(ctx, snap, &actorstore.ForkOptions{ID: to}); err == nil {
		t.Fatal("the fork succeeded")
	}
	e.Heal()
	fork, err := s.Actor(ctx, to, nil)
	must(t, err)
	if got := notes(t, fork, ""); len(got) != 0 {
		t.Errorf("%d notes are left", len(got))
	}
}

func TestNotesCheck(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), nil))
	row := func(id actorstore.ID, key string) []byte {
		return layout.AppendNoteKey(nil, layout.ID(id), []byte(key))
	}
	lost := actorstore.NewID()
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{
		kv.Set(row(lost, "n"), []byte("x")),
		kv.Set(row(testID, "long"), make([]byte, actorstore.MaxNoteValue+1)),
		kv.Set(append(row(testID, "n"), 0x14), nil),
	}}))
	var got []string
	for f, err := range s.Check(ctx) {
		must(t, err)
		got = append(got, f.String())
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{lost.String() + ": notes: they are those of an actor without a head", "limit 256", "no row of this kind"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if len(got) != 3 {
		t.Errorf("got\n%s", all)
	}
	for _, c := range []struct {
		id actorstore.ID
		n  int
	}{{testID, 2}, {lost, 1}} {
		n := 0
		for _, err := range s.CheckActor(ctx, c.id) {
			must(t, err)
			n++
		}
		if n != c.n {
			t.Errorf("actor %s: %d findings, want %d", c.id, n, c.n)
		}
	}
}

func TestKeep(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	free, err := a.Keep(actorstore.NamespaceQueue)
	must(t, err)
	if _, err := a.Keep(actorstore.NamespaceQueue); !errors.Is(err, actorstore.ErrKept) {
		t.Errorf("got %v", err)
	}
	if _, err := a.Keep(200); err == nil {
		t.Error("namespace 200 was given away")
	}
	free()
	again, err := a.Keep(actorstore.NamespaceQueue)
	must(t, err)
	free() // must not free the other's
	if _, err := a.Keep(actorstore.NamespaceQueue); !errors.Is(err, actorstore.ErrKept) {
		t.Errorf("got %v", err)
	}
	again()
	must(t, a.Close())
	if _, err := a.Keep(actorstore.NamespaceQueue); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
