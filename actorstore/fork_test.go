package actorstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// fill writes keys of every namespace, values of several rows among them, and
// returns what a fork of them has.
func fill(t testing.TB, a *actorstore.Actor, n int) map[string]string {
	t.Helper()
	want := map[string]string{}
	put := func(key []byte, value string, copied bool) {
		must(t, a.Put(ctx, key, []byte(value)))
		if copied {
			want[string(key)] = value
		}
	}
	put(actorstore.AppendPersist(nil), "state", true)
	put(actorstore.AppendConnection(nil, "c1"), "connection", false)
	put([]byte{actorstore.NamespaceInspector}, "token", false)
	put(user(""), "", true)
	for i := range n {
		value := bytes.Repeat([]byte{byte(i)}, i*7919%(2*layout.RowSize))
		put(user(fmt.Sprint("key ", i)), string(value), true)
	}
	put(actorstore.LayoutGreenroom.AppendQueueMessage(nil, 1), "message", true)
	put(actorstore.LayoutGreenroom.AppendQueueMetadata(nil), "queue", true)
	put(actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileMain), "size", true)
	put(actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 0), "page", true)
	put(actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileJournal), "size", true)
	return want
}

// holds returns the keys of r with their values.
func holds(t testing.TB, r actorstore.Reader) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range r.List(ctx, actorstore.ListOptions{}) {
		must(t, err)
		all[string(e.Key)] = string(e.Value)
	}
	return all
}

// wantContent holds the actor against what it should have, and its head too.
func wantContent(t testing.TB, s *actorstore.Store, id actorstore.ID, want map[string]string) {
	t.Helper()
	v, err := s.View(ctx, id)
	must(t, err)
	defer func() { must(t, v.Close()) }()
	got, used := holds(t, v), int64(0)
	for key, value := range want {
		used += quota.Cost([]byte(key), int64(len(value)))
		if g, ok := got[key]; !ok || g != value {
			t.Errorf("%s: %d bytes, want %d", actorstore.Describe([]byte(key)), len(g), len(value))
		}
	}
	if len(got) != len(want) || v.Info().Used != used {
		t.Errorf("%d keys with %d bytes, want %d with %d", len(got), v.Info().Used, len(want), used)
	}
}

func TestFork(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, smallForks)
		a := openActor(t, s)
		want := fill(t, a, 40)
		snap, err := a.Snapshot(ctx)
		must(t, err)
		defer func() { must(t, snap.Close()) }()
		// What comes after the snapshot is not in the fork, although it comes while
		// the fork is made.
		calls, last := 0, int64(0)
		id, err := s.Fork(ctx, snap, &actorstore.ForkOptions{Name: "copy", Progress: func(used int64) {
			calls++
			if used < last {
				t.Errorf("%d bytes after %d", used, last)
			}
			last = used
			must(t, a.Put(ctx, user(fmt.Sprint("later ", calls)), []byte("x")))
			must(t, a.Put(ctx, user("key 1"), []byte("overwritten")))
		}})
		must(t, err)
		if calls < 10 {
			t.Errorf("%d commits", calls)
		}
		if named, err := s.Lookup(ctx, "copy"); err != nil || named != id || id != actorstore.IDFromName("copy") {
			t.Errorf("the name leads to %v, %v; want %v", named, err, id)
		}
		wantContent(t, s, id, want)
		v, err := s.View(ctx, id)
		must(t, err)
		if info := v.Info(); info.Seq != 1 || info.Name != "copy" || !info.Created.Equal(clock()) || info.Used != last {
			t.Errorf("%+v", info)
		}
		must(t, v.Close())
		if found := problems(t, s); len(found) > 0 {
			t.Errorf("%v", found)
		}
		// It is an actor like others.
		b, err := s.Named(ctx, "copy", nil)
		must(t, err)
		defer func() { must(t, b.Close()) }()
		must(t, b.Put(ctx, user("key 1"), nil))
		if v, _ := get(t, a, user("key 1")); v != "overwritten" {
			t.Errorf("the original has %q", v)
		}
	})
}

// While a fork is made, nothing shows it.
func TestForkHidden(t *testing.T) {
	s := openStore(t, memkv.New(), smallForks)
	a := openActor(t, s)
	fill(t, a, 20)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	to, steps, hidden := actorstore.NewID(), 0, 0
	_, err = s.Fork(ctx, snap, &actorstore.ForkOptions{ID: to, Name: "copy", Progress: func(int64) {
		steps++
		if _, err := s.View(ctx, to); !errors.Is(err, actorstore.ErrUnknownActor) {
			return // the last
		}
		hidden++
		if _, err := s.Lookup(ctx, "copy"); !errors.Is(err, actorstore.ErrUnknownActor) {
			t.Errorf("Lookup: %v", err)
		}
		for info, err := range s.Actors(ctx, nil) {
			if must(t, err); info.ID == to {
				t.Error("the list of actors has it")
			}
		}
		if _, err := s.Actor(ctx, to, nil); !errors.Is(err, actorstore.ErrInUse) {
			t.Errorf("Actor: %v", err)
		}
		if _, err := s.Fork(ctx, snap, &actorstore.ForkOptions{ID: to}); !errors.Is(err, actorstore.ErrInUse) {
			t.Errorf("Fork: %v", err)
		}
		if found := problems(t, s); len(found) != 1 || !found[0].Unfinished || !found[0].Harmless || found[0].Actor != to {
			t.Errorf("Check: %v", found)
		}
	}})
	must(t, err)
	if hidden != steps-1 || steps < 5 {
		t.Errorf("%d of %d steps were hidden", hidden, steps)
	}
}

// TestForkLetters: a fork is another sender, and another receiver.
func TestForkLetters(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	want := fill(t, a, 3)
	for _, key := range [][]byte{account, letter, seen, socket} {
		must(t, a.Put(ctx, key, []byte("stays")))
	}
	engine := []byte("he")
	must(t, a.Put(ctx, engine, []byte("goes along")))
	want[string(engine)] = "goes along"
	v, err := s.View(ctx, testID)
	must(t, err)
	id, err := s.Fork(ctx, v.Snapshot, nil)
	must(t, errors.Join(err, v.Close()))
	wantContent(t, s, id, want)
}

// An actor whose keys were all deleted is one, and so is its fork.
func TestForkEmpty(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), nil))
	must(t, a.Delete(ctx, user("k")))
	snap, err := a.Snapshot(ctx)
	must(t, err)
	id, err := s.Fork(ctx, snap, nil)
	must(t, err)
	must(t, snap.Close())
	wantContent(t, s, id, nil)
}

func TestForkRefused(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	want := fill(t, a, 3)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	b, err := s.Named(ctx, "taken", nil)
	must(t, err)
	empty, err := b.Snapshot(ctx)
	must(t, err)
	must(t, b.Put(ctx, user("k"), nil))
	closed, err := a.Snapshot(ctx)
	must(t, err)
	must(t, closed.Close())
	over, cancel := context.WithCancel(ctx)
	cancel()
	strict := func(l batch.Limits) *actorstore.Store { return openStore(t, memkv.New(), l) }
	readOnly, err := actorstore.Open(ctx, eng, &actorstore.Options{ReadOnly: true})
	must(t, err)
	for _, c := range []struct {
		name string
		ctx  context.Context
		s    *actorstore.Store
		from *actorstore.Snapshot
		opts actorstore.ForkOptions
		want error
	}{
		{"itself", ctx, s, snap, actorstore.ForkOptions{ID: testID}, actorstore.ErrExists},
		{"an actor that is open", ctx, s, snap, actorstore.ForkOptions{ID: b.ID()}, actorstore.ErrExists},
		{"a name that leads to an actor", ctx, s, snap, actorstore.ForkOptions{Name: "taken"}, actorstore.ErrExists},
		{"the name of another actor", ctx, s, snap, actorstore.ForkOptions{ID: actorstore.NewID(), Name: "taken"}, actorstore.ErrNameTaken},
		{"a bad name", ctx, s, snap, actorstore.ForkOptions{Name: "\xff"}, actorstore.ErrName},
		{"an actor never written to", ctx, s, empty, actorstore.ForkOptions{}, actorstore.ErrUnknownActor},
		{"a closed snapshot", ctx, s, closed, actorstore.ForkOptions{}, actorstore.ErrClosed},
		{"a context that is over", over, s, snap, actorstore.ForkOptions{}, context.Canceled},
		{"a store for reading", ctx, readOnly, snap, actorstore.ForkOptions{}, actorstore.ErrReadOnly},
		{"a lower quota", ctx, strict(batch.Limits{Storage: 1000, Entries: 3}), snap, actorstore.ForkOptions{}, actorstore.ErrQuota},
		{"a lower limit of values", ctx, strict(batch.Limits{ValueSize: 100}), snap, actorstore.ForkOptions{}, batch.ErrValueTooLarge},
	} {
		id, err := c.s.Fork(c.ctx, c.from, &c.opts)
		if !errors.Is(err, c.want) || !id.IsZero() {
			t.Errorf("%s: id %v, error %v, want %v", c.name, id, err, c.want)
		}
		if found := problems(t, c.s); len(found) > 0 {
			t.Errorf("%s: %v", c.name, found)
		}
	}
	must(t, empty.Close())
	must(t, b.Close())
	n := 0
	for _, err := range s.Actors(ctx, nil) {
		must(t, err)
		n++
	}
	if n != 2 {
		t.Errorf("%d actors, want 2", n)
	}
	// A refused fork leaves nothing in the way.
	id, err := s.Fork(ctx, snap, nil)
	must(t, err)
	wantContent(t, s, id, want)
}

// A context that ends in the middle leaves nothing, and neither does a failure of
// which it is known that nothing was written.
func TestForkCancelled(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, smallForks)
	a := openActor(t, s)
	want := fill(t, a, 20)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	cut, cancel := context.WithCancel(ctx)
	steps := 0
	_, err = s.Fork(cut, snap, &actorstore.ForkOptions{Name: "copy", Progress: func(int64) {
		if steps++; steps == 4 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || steps != 4 {
		t.Errorf("%v after %d steps", err, steps)
	}
	if found := problems(t, s); len(found) > 0 {
		t.Errorf("%v", found)
	}
	if _, err := eng.Get(ctx, layout.RecordKey(layout.ID(actorstore.IDFromName("copy")), layout.PartHead), nil); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("the head: %v", err)
	}
	id, err := s.Fork(ctx, snap, &actorstore.ForkOptions{Name: "copy"})
	must(t, err)
	wantContent(t, s, id, want)
}

// Another opening of the new actor ends the fork, and finds it empty.
func TestForkFenced(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, smallForks)
	a := openActor(t, s)
	fill(t, a, 20)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	other := openStore(t, eng, smallForks)
	var b *actorstore.Actor
	_, err = s.Fork(ctx, snap, &actorstore.ForkOptions{Name: "copy", Progress: func(int64) {
		if b == nil {
			b, err = other.Named(ctx, "copy", nil)
			must(t, err)
			if got := holds(t, b); len(got) > 0 || b.Used() != 0 || b.Seq() != 0 {
				t.Errorf("it has %d keys, %d bytes", len(got), b.Used())
			}
			must(t, b.Put(ctx, user("mine"), nil))
		}
	}})
	if !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("Fork: %v", err)
	}
	wantContent(t, other, b.ID(), map[string]string{string(user("mine")): ""})
	must(t, b.Close())
	if found := problems(t, s); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// A recorder is an engine that remembers its commits.
type recorder struct {
	kv.Engine
	mu      sync.Mutex
	commits [][]kv.Op
}

func (r *recorder) Commit(ctx context.Context, c *kv.Commit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ops []kv.Op
	for _, op := range c.Ops {
		op.Key, op.Value = bytes.Clone(op.Key), bytes.Clone(op.Value)
		ops = append(ops, op)
	}
	err := r.Engine.Commit(ctx, c)
	if err == nil {
		r.commits = append(r.commits, ops)
	}
	return err
}

func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.commits)
}

// replay returns an engine with the first n commits.
func (r *recorder) replay(t testing.TB, n int) kv.Engine {
	t.Helper()
	eng := memkv.New()
	r.mu.Lock() // the host may renew its lease meanwhile
	commits := r.commits[:n]
	r.mu.Unlock()
	for _, ops := range commits {
		must(t, eng.Commit(ctx, &kv.Commit{Ops: ops}))
	}
	return eng
}

// of returns which commits from number n on are of an actor: others may be between them,
// by which the host renews its lease.
func (r *recorder) of(n int, id actorstore.ID) (of []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, ops := range r.commits[n:] {
		if slices.ContainsFunc(ops, func(op kv.Op) bool { return bytes.Contains(op.Key, id.UUID[:]) }) {
			of = append(of, n+i)
		}
	}
	return of
}

// TestForkCrash stops a fork after every engine commit: before the last one the new
// actor isn't there, nor anything that would be damage; it can be opened, and forked again.
func TestForkCrash(t *testing.T) {
	rec := &recorder{Engine: memkv.New()}
	s := openStore(t, rec, smallForks)
	a := openActor(t, s)
	want := fill(t, a, 30)
	original := holds(t, a)
	begin := rec.len()
	snap, err := a.Snapshot(ctx)
	must(t, err)
	to, err := s.Fork(ctx, snap, &actorstore.ForkOptions{Name: "copy"})
	must(t, err)
	must(t, snap.Close())
	of := rec.of(begin, to)
	if len(of) < 10 {
		t.Fatalf("%d commits", len(of))
	}
	end := of[len(of)-2] + 1 // the one after it says that the new actor has no owner
	for n := begin; n <= end+1; n++ {
		if testkit.Short() && n > of[1]+1 && n < end-1 && n%4 > 0 {
			continue
		}
		for _, next := range []string{"fork", "open", "drop"} {
			s := openStore(t, rec.replay(t, n), smallForks)
			if n >= end {
				wantContent(t, s, to, want)
				if found := problems(t, s); len(found) > 0 {
					t.Errorf("complete: %v", found)
				}
				break
			}
			// The first commit claims the actor.
			afterCrash(t, s, to, next, n > of[1])
			if next == "fork" {
				v, err := s.View(ctx, testID)
				must(t, err)
				_, err = s.Fork(ctx, v.Snapshot, &actorstore.ForkOptions{Name: "copy"})
				must(t, errors.Join(err, v.Close()))
				wantContent(t, s, to, want)
			}
			wantContent(t, s, testID, original)
			if found := problems(t, s); len(found) > 0 {
				t.Errorf("%d commits, then %s: %v", n-begin, next, found)
			}
		}
	}
}

// afterCrash holds a store with a fork that was cut off against what it should show,
// and then opens the actor if next says so.
func afterCrash(t *testing.T, s *actorstore.Store, to actorstore.ID, next string, begun bool) {
	t.Helper()
	found := problems(t, s)
	if slices.ContainsFunc(found, func(f actorstore.Finding) bool { return !f.Unfinished || f.Actor != to }) || (len(found) == 1) != begun {
		t.Errorf("findings: %v", found)
	}
	if _, err := s.View(ctx, to); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("View: %v", err)
	}
	if _, err := s.Lookup(ctx, "copy"); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("Lookup: %v", err)
	}
	if next == "fork" {
		return
	}
	if _, err := s.Named(ctx, "copy", &actorstore.ActorOptions{MustExist: true}); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("MustExist: %v", err)
	}
	a, err := s.Named(ctx, "copy", nil)
	must(t, err)
	if got := holds(t, a); len(got) > 0 || a.Used() != 0 {
		t.Errorf("opened, it has %d keys, %d bytes", len(got), a.Used())
	}
	if next == "drop" {
		must(t, a.Drop(ctx))
	}
	must(t, a.Close())
}
