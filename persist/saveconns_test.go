package persist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestConnections: state and connections are one batch, the record first, then the
// connections in their order; more than fit into one commit are split.
func TestConnections(t *testing.T) {
	w := newWorld(t)
	c := &telling{}
	r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
	s := state(t, r)
	must(t, s.Mutate(ctx, add(1)))
	must(t, r.Save(ctx, now)) // from here on none begins by itself within the hour
	for i := range 300 {
		c.set(fmt.Sprintf("%03d", i), i)
	}
	must(t, s.Mutate(ctx, add(1)))
	var firsts, ops []int
	w.eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			firsts = append(firsts, len(op.Commit.Ops[0].Key))
			ops = append(ops, len(op.Commit.Ops))
		}
		return nil
	})
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	if n := w.eng.Counts(); n.Commits != 3 || n.Durable != 1 {
		t.Errorf("%d commits, %d durable", n.Commits, n.Durable)
	}
	if firsts[0] >= firsts[1] { // the record's key is the shortest
		t.Errorf("the first commit doesn't begin with the record: %v", firsts)
	}
	if n := len(slices.Collect(keys(t, w.actor))); n != 300 || c.Changed() != 0 || w.countIn() != 2 {
		t.Errorf("%d connections stored, %d changed, count %d", n, c.Changed(), w.countIn())
	}
	w.eng.Hook(nil)
	// Connections alone are saved, too, and no record with them.
	c.set("007", 1)
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	if n := w.eng.Counts(); n.Commits != 1 || c.Changed() != 0 {
		t.Errorf("%d commits, %d changed", n.Commits, c.Changed())
	}
	c.set("007", 2)
	must(t, r.Close(ctx))
	if v, err := w.actor.Get(ctx, actorstore.AppendConnection(nil, "007"), nil); err != nil || v[0] != 2 {
		t.Errorf("after Close: %v, %v", v, err)
	}
}

// keys yields the ids of the stored connections.
func keys(t testing.TB, a *actorstore.Actor) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for e, err := range a.List(ctx, actorstore.ListOptions{Prefix: []byte{actorstore.NamespaceConnections}}) {
			must(t, err)
			if !yield(string(e.Key[1:])) {
				return
			}
		}
	}
}

// TestConnectionsUnasked: a Stager that can't tell whether it has something is asked.
func TestConnectionsUnasked(t *testing.T) {
	w := newWorld(t)
	c := &conns{}
	r := w.open(&Options{Connections: c})
	state(t, r)
	c.set("a", 1)
	must(t, r.Save(ctx, now))
	if c.dirty.Len() != 0 {
		t.Error("not staged")
	}
	w.eng.Reset()
	must(t, r.Save(ctx, now))
	must(t, r.Close(ctx))
	if n := w.eng.Counts(); n.Commits != 0 {
		t.Errorf("%d commits for nothing", n.Commits)
	}
}

// TestConnectionsFail: connections that can't be stored don't keep the state from it.
func TestConnectionsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &telling{}
		r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now)) // from here on none begins by itself within the hour
		must(t, s.Mutate(ctx, add(1)))
		boom := errors.New("boom")
		c.set("a", 1)
		c.fail = boom
		err := r.Save(ctx, now)
		wantErr(t, err, ErrConnections)
		wantErr(t, err, boom)
		if w.countIn() != 2 || c.Changed() != 1 {
			t.Errorf("stored %d, %d changed", w.countIn(), c.Changed())
		}
		must(t, s.Mutate(ctx, add(1)))
		wantErr(t, r.Save(ctx, &SaveOptions{Immediate: true, Applied: true}), ErrConnections)
		wantErr(t, r.Close(ctx), boom)
		c.fail = nil
		must(t, r.Close(ctx))
		if c.Changed() != 0 {
			t.Error("not tried again")
		}
	})
}

// TestConnectionsMeanwhile: who asks for a save of a connection that has changed during one
// waits for the next, which has it, also if the state has not changed.
func TestConnectionsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &telling{}
		r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
		state(t, r)
		must(t, r.Save(ctx, now))
		pause := w.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		first, second := make(chan error, 1), make(chan error, 1)
		c.set("a", 1)
		go func() { first <- r.Save(ctx, now) }()
		<-pause.Reached()
		c.set("b", 1)
		c.set("a", 2)
		go func() { second <- r.Save(ctx, now) }()
		synctest.Wait()
		w.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1, Err: kv.ErrTooLarge})
		pause.Release()
		must(t, <-first)
		wantErr(t, <-second, batch.ErrTooLarge) // of its own save
		must(t, r.Save(ctx, now))
		if ids := slices.Collect(keys(t, w.actor)); !slices.Equal(ids, []string{"a", "b"}) || c.Changed() != 0 {
			t.Errorf("stored %v, %d changed", ids, c.Changed())
		}
		if v, err := w.actor.Get(ctx, actorstore.AppendConnection(nil, "a"), nil); err != nil || v[0] != 2 {
			t.Errorf("stored %v, %v", v, err)
		}
	})
}

// TestCrashInSave: wherever a save is cut off, the state and the first connections are
// new and the rest old, each of them whole.
func TestCrashInSave(t *testing.T) {
	for landed := range 4 {
		w := newWorld(t)
		c := &telling{}
		r := w.open(&Options{Connections: c, SaveInterval: time.Hour})
		s := state(t, r)
		for i := range 300 {
			c.set(fmt.Sprintf("%03d", i), 1)
		}
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now)) // from here on none begins by itself within the hour
		for i := range 300 {
			c.set(fmt.Sprintf("%03d", i), 2)
		}
		must(t, s.Mutate(ctx, add(1)))
		w.eng.Tear(landed)
		err := r.Save(ctx, now)
		if (err == nil) != (landed == 3) {
			t.Fatalf("%d commits landed: %v", landed, err)
		}
		w.eng.Heal()
		if r := w.open(nil); got(t, state(t, r)) != 1+min(landed, 1) {
			t.Errorf("%d commits landed: count %d", landed, got(t, state(t, r)))
		}
		var fresh []bool
		for id := range keys(t, w.actor) {
			v, err := w.actor.Get(ctx, actorstore.AppendConnection(nil, id), nil)
			must(t, err)
			fresh = append(fresh, v[0] == 2)
		}
		n := 0
		for n < len(fresh) && fresh[n] {
			n++
		}
		if want := []int{0, 127, 255, 300}[landed]; len(fresh) != 300 || n != want || slices.Contains(fresh[n:], true) {
			t.Errorf("%d commits landed: %d of %d are new, want %d", landed, n, len(fresh), want)
		}
	}
}

// TestPartLanded: of a batch that landed in part nobody knows what is stored, so the
// record is written again, as it is in memory.
func TestPartLanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.Entries = 1
		r := w.open(nil)
		s := state(t, r)
		must(t, s.Mutate(ctx, add(1)))
		must(t, r.Save(ctx, now))
		short, cancel := context.WithCancel(ctx)
		b := batch.Batch{Mode: batch.Ordered}
		s.StageMutate(&b, add(1000))
		b.Late(func(b *batch.Batch) error {
			b.Late(func(b *batch.Batch) error { // behind the record
				b.Put(actorstore.UserKey([]byte("a")), nil)
				return nil
			})
			return nil
		})
		w.eng.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.AfterCommit {
				cancel()
			}
			return nil
		})
		var part *batch.OrderedError
		if err := w.actor.Commit(short, &b); !errors.As(err, &part) {
			t.Fatalf("got %v", err)
		}
		w.eng.Hook(nil)
		if got(t, s) != 1 || r.Saved() || w.countIn() != 1001 {
			t.Fatalf("count %d, saved %v, stored %d", got(t, s), r.Saved(), w.countIn())
		}
		must(t, r.Close(ctx))
		if w.countIn() != 1 {
			t.Errorf("stored %d", w.countIn())
		}
		w.healthy() // what the record replaced was not as long as the one in memory
	})
}
