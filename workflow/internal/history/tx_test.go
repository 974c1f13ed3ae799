package history

import (
	"regexp"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A step is recorded, found, and there after a restart.
func TestPut(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	l := r.at("charge")
	if r.h.State() != Pending || r.h.Input() != nil {
		t.Errorf("an empty history is %v with input %q", r.h.State(), r.h.Input())
	}
	r.commit(func(tx *Tx) {
		must(t, tx.SetState(Running))
		must(t, tx.SetInput([]byte("in")))
		must(t, tx.Put(Entry{Location: l, Kind: Step{}}))
		must(t, tx.PutMetadata(l, Metadata{Status: StatusRunning, Attempts: 1, LastAttemptAt: 5, CreatedAt: 5}))
		if _, ok := r.h.Get(l); ok {
			t.Error("the entry is there before it landed")
		}
	})
	first, ok := r.h.Get(l)
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !ok || first.Metadata.Status != StatusRunning || !uuid.MatchString(first.ID) {
		t.Fatalf("got %+v", first)
	}
	r.verify("the attempt")
	r.commit(func(tx *Tx) {
		must(t, tx.Put(Entry{Location: l, Kind: Step{Output: []byte("ok")}}))
		must(t, tx.PutMetadata(l, Metadata{Status: StatusCompleted, Attempts: 1, LastAttemptAt: 5, CreatedAt: 5, CompletedAt: new(Millis(7))}))
	})
	r.verify("the result")
	want := r.h.Snapshot()
	r.reopen()
	wantEqual(t, "after a restart", r.h.Snapshot(), want)
	e, ok := r.h.byID(first.ID)
	if !ok || string(e.Kind.(Step).Output) != "ok" || *e.Metadata.CompletedAt != 7 || e.Location != l {
		t.Errorf("got %+v", e)
	}
	if _, ok := r.h.byID("nobody"); ok || r.h.NameOf(0) != "charge" || r.h.NameOf(1) != "" {
		t.Error("something is there that isn't")
	}
}

// What a transaction says later counts.
func TestOrderInTx(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	r.commit(func(tx *Tx) {
		r.step(tx, "1", "a")
		r.step(tx, "2", "b", "x")
		r.step(tx, "3", "b", "y")
		r.step(tx, "4", "c")
	})
	r.verify("before")
	r.commit(func(tx *Tx) {
		r.step(tx, "new", "b", "z") // deleted again
		tx.Delete(r.at("b"))
		r.step(tx, "again", "b", "y")
		r.step(tx, "first", "c")
		r.step(tx, "second", "c")
	})
	r.verify("after")
	r.wantPaths("after", "a", "b/y", "c")
	if e, _ := r.h.Get(r.at("b", "y")); string(e.Kind.(Step).Output) != "again" {
		t.Errorf("got %+v", e)
	}
	if e, _ := r.h.Get(r.at("c")); string(e.Kind.(Step).Output) != "second" {
		t.Errorf("got %+v", e)
	}
}

// Names that look like the separators of paths are names.
func TestNamesDontCollide(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	names := [][]string{{"a/b/x"}, {"a", "b", "x"}, {"a", "b/x"}, {"a/b", "x"}, {"l~3"[:1], "l~3"}}
	r.commit(func(tx *Tx) {
		for i, path := range names {
			r.step(tx, string(rune('0'+i)), path...)
		}
		i, err := r.h.Name("l~3")
		must(t, err)
		must(t, tx.Put(Entry{Location: r.at("l").Name(i), Kind: Step{Output: []byte("name")}}))
	})
	r.verify("all")
	if len(r.paths()) != len(names)+1 {
		t.Errorf("got %q", r.paths())
	}
	for i, path := range names {
		if e, ok := r.h.Get(r.at(path...)); !ok || string(e.Kind.(Step).Output) != string(rune('0'+i)) {
			t.Errorf("%q: got %+v", path, e)
		}
	}
}

// The iterations of a loop go with one range, in the order of numbers.
func TestDeleteIterations(t *testing.T) {
	r := newRig(t, Options{}, whole)
	loop := r.at("loop")
	r.commit(func(tx *Tx) {
		must(t, tx.Put(Entry{Location: loop, Kind: Loop{}}))
		for _, n := range []uint32{0, 1, 5, 255, 256, 65535, 65536, 1<<32 - 1} {
			i, err := r.h.Name("s")
			must(t, err)
			must(t, tx.Put(Entry{Location: loop.Iteration(0, n).Name(i), Kind: Step{}}))
			must(t, tx.PutMetadata(loop.Iteration(0, n).Name(i), Metadata{}))
		}
		r.step(tx, "", "s")
	})
	r.verify("before")
	for _, tt := range []struct {
		from, to uint32
		want     []string
	}{
		{5, 5, []string{"loop", "loop[0]/s", "loop[1]/s", "loop[5]/s", "loop[255]/s", "loop[256]/s", "loop[65535]/s", "loop[65536]/s", "loop[4294967295]/s", "s"}},
		{0, 5, []string{"loop", "loop[5]/s", "loop[255]/s", "loop[256]/s", "loop[65535]/s", "loop[65536]/s", "loop[4294967295]/s", "s"}},
		{6, 256, []string{"loop", "loop[5]/s", "loop[256]/s", "loop[65535]/s", "loop[65536]/s", "loop[4294967295]/s", "s"}},
		{0, 65536, []string{"loop", "loop[65536]/s", "loop[4294967295]/s", "s"}},
	} {
		c := r.counted(func() { r.commit(func(tx *Tx) { tx.DeleteIterations(loop, tt.from, tt.to) }) })
		if c.Gets+c.Scans != 0 {
			t.Errorf("%d to %d: %d reads", tt.from, tt.to, c.Gets+c.Scans)
		}
		r.wantPaths("after", tt.want...)
		r.verify("after")
	}
	r.reopen()
	// What overlaps is told to the store as one.
	c := r.counted(func() {
		r.commit(func(tx *Tx) {
			tx.DeleteIterations(loop, 7, 70000)
			tx.DeleteIterations(loop, 65536, 1<<32-1)
			tx.Delete(loop)
		})
	})
	if c.Gets+c.Scans != 0 {
		t.Errorf("%d reads", c.Gets+c.Scans)
	}
	r.wantPaths("without the loop", "s")
	r.verify("without the loop")
}

// TestDeleteWrites: entries that are removed together are one write for the engine, however
// many they are.
func TestDeleteWrites(t *testing.T) {
	writes := func(n uint32, remove func(tx *Tx, loop Location)) (count int) {
		r := newRig(t, Options{}, whole)
		loop := r.at("loop")
		r.commit(func(tx *Tx) {
			must(t, tx.Put(Entry{Location: loop, Kind: Loop{}}))
			for i := range n {
				must(t, tx.Put(Entry{Location: loop.Iteration(0, i).Name(0), Kind: Step{}}))
			}
		})
		r.Engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit {
				count += len(op.Commit.Ops)
			}
			return nil
		})
		r.commit(func(tx *Tx) { remove(tx, loop) })
		r.Engine.Hook(nil)
		r.verify("removed")
		return count
	}
	for name, remove := range map[string]func(*Tx, Location){
		"iterations": func(tx *Tx, loop Location) { tx.DeleteIterations(loop, 0, 1000) },
		"loop":       func(tx *Tx, loop Location) { tx.Delete(loop) },
		"all":        func(tx *Tx, _ Location) { must(t, tx.Reset(false)) },
	} {
		if few, many := writes(2, remove), writes(300, remove); few == 0 || many != few {
			t.Errorf("%s: %d writes for 2 iterations, %d for 300", name, few, many)
		}
	}
}

// A commit that is refused changes nothing, and can be tried again.
func TestAbort(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	r.commit(func(tx *Tx) { r.step(tx, "1", "a") })
	before := r.h.Snapshot()
	tx := r.h.Begin()
	r.step(tx, "2", "b")
	tx.Delete(r.at("a"))
	must(t, tx.SetState(Sleeping))
	var b batch.Batch
	tx.Stage(&b)
	must(t, b.Seal())
	b.Abort(nil)
	before.Names = r.h.Snapshot().Names
	wantEqual(t, "given up", r.h.Snapshot(), before)
	r.verify("given up")
	must(t, tx.Commit(ctx))
	r.wantPaths("tried again", "b")
	r.verify("tried again")
	wantErr(t, "a third time", tx.Commit(ctx), errInvalid)
	wantErr(t, "put", tx.Put(Entry{Location: r.at("c"), Kind: Step{}}), errInvalid)
	wantErr(t, "state", tx.SetState(Running), errInvalid)
	wantErr(t, "metadata", tx.PutMetadata(r.at("b"), Metadata{}), errInvalid)
	wantErr(t, "output", tx.SetOutput(nil), errInvalid)
	wantErr(t, "reset", tx.Reset(false), errInvalid)
	wantErr(t, "defer", tx.Defer(), errInvalid)
}

// A transaction lands with what else is in a batch, also in one that was refused before.
func TestStage(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	tx := r.h.Begin()
	r.step(tx, "1", "a")
	var b, spare batch.Batch
	tx.Stage(&b)
	b.Mark(&spare)
	must(t, b.Seal())
	b.Rewind(nil)
	r.wantPaths("refused")
	must(t, r.h.Reload(ctx)) // which waits for what is being committed
	r.commit(func(tx *Tx) { r.step(tx, "0", "between") })
	b.Put([]byte{4, 'k'}, []byte("v"))
	must(t, r.Actor.Commit(ctx, &b))
	r.wantPaths("landed", "a", "between")
	r.verify("landed")

	ordered := batch.Batch{Mode: batch.Ordered}
	tx = r.h.Begin()
	r.step(tx, "2", "b")
	tx.Stage(&ordered)
	wantErr(t, "ordered", r.Actor.Commit(ctx, &ordered), errInvalid)
	var twice batch.Batch
	tx.Stage(&twice)
	r.h.Begin().Stage(&twice)
	wantErr(t, "two in a batch", r.Actor.Commit(ctx, &twice), errInvalid)
	must(t, tx.Commit(ctx))
	r.verify("after those")
}

// Names come before the entries that need them, and what is deleted goes last, unless
// something is put in its place.
func TestWriteOrder(t *testing.T) {
	r := newRig(t, Options{NewID: func() string { return "id" }}, batch.Limits{})
	r.commit(func(tx *Tx) {
		must(t, tx.Put(Entry{ID: "x", Location: r.at("old", "x"), Kind: Step{}}))
		must(t, tx.PutMetadata(r.at("old", "x"), Metadata{}))
		must(t, tx.Put(Entry{ID: "y", Location: r.at("again"), Kind: Step{}}))
	})
	tx := r.h.Begin()
	tx.Delete(r.at("old"))
	tx.Delete(r.at("again"))
	r.step(tx, "1", "again", "new")
	must(t, tx.SetState(Completed))
	must(t, tx.SetOutput([]byte("o")))
	must(t, tx.SetInput([]byte("i")))
	var b batch.Batch
	tx.Stage(&b)
	must(t, b.Seal())
	var got []string
	for _, op := range b.Ops() {
		got = append(got, op.Kind.String()+" "+actorstore.Describe(op.Key))
	}
	want := []string{"delete-range workflow/history/2", "put workflow/names/3", "put workflow/history/2/3", "put workflow/entries/id",
		"put workflow/fields/state", "put workflow/fields/output", "put workflow/fields/input", "delete-range workflow/history/0", "delete workflow/entries/x"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	must(t, r.Actor.Commit(ctx, &b))
	r.verify("after")
}

// Several transactions at the same time all land.
func TestConcurrent(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	const branches, steps = 8, 20
	done := make(chan error)
	for b := range branches {
		go func() {
			done <- func() error {
				branch, err := r.h.Name(string(rune('a' + b)))
				if err != nil {
					return err
				}
				for s := range steps {
					name, err := r.h.Name(string(rune('a' + (b+s)%26)))
					if err != nil {
						return err
					}
					l := Location("").Name(branch).Name(name)
					tx := r.h.Begin()
					if err := tx.Put(Entry{Location: l, Kind: Step{Output: []byte{byte(s)}}}); err != nil {
						return err
					}
					if err := tx.PutMetadata(l, Metadata{Attempts: uint32(s)}); err != nil {
						return err
					}
					if s%3 == 0 {
						err = tx.Defer()
					} else {
						err = tx.Commit(ctx)
					}
					if err != nil {
						return err
					}
				}
				return flush(r.h)
			}()
		}()
	}
	for range branches {
		must(t, <-done)
	}
	if n := len(r.paths()); n != branches*steps {
		t.Errorf("%d entries", n)
	}
	r.verify("all")
}

// Changed tells everything that was stored, in order.
func TestChanged(t *testing.T) {
	var got []Change
	r := newRig(t, Options{Changed: func(c Change) { got = append(got, c) }}, batch.Limits{})
	r.commit(func(tx *Tx) {
		r.step(tx, "1", "a")
		r.step(tx, "2", "b")
		must(t, tx.SetState(Running))
	})
	r.commit(func(tx *Tx) { tx.Delete(r.at("a")); r.step(tx, "3", "c") })
	r.commit(func(tx *Tx) { must(t, tx.SetState(Completed)) })
	must(t, flush(r.h))
	if len(got) != 3 {
		t.Fatalf("%d changes", len(got))
	}
	paths := func(es []Entry) (paths []string) {
		for _, e := range es {
			paths = append(paths, r.h.Path(e.Location))
		}
		return paths
	}
	for i, want := range []struct {
		state            State
		first            NameIndex
		names            []string
		entries, deleted []string
	}{
		{Running, 0, []string{"a", "b"}, []string{"a", "b"}, nil},
		{Running, 2, []string{"c"}, []string{"c"}, []string{"a"}},
		{Completed, 3, nil, nil, nil},
	} {
		c := got[i]
		if c.State != want.state || c.FirstName != want.first || !slices.Equal(c.Names, want.names) ||
			!slices.Equal(paths(c.Entries), want.entries) || !slices.Equal(paths(c.Deleted), want.deleted) {
			t.Errorf("change %d: got %+v", i, c)
		}
	}
}
