package importer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/importer"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// source returns an actor with keys of which the values have size bytes.
func source(n, size int) *importer.Actor {
	var entries []importer.Entry
	for i := range n {
		entries = append(entries, importer.Entry{Key: fmt.Appendf([]byte{actorstore.NamespaceUser}, "%05d", i), Value: bytes.Repeat([]byte{byte(i)}, size), Size: size})
	}
	return of(entries)
}

// of returns an actor with these keys.
func of(entries []importer.Entry) *importer.Actor {
	return &importer.Actor{
		State: importer.State{ID: "a", Name: "room", Key: []string{"x"}, Created: 100, Started: 200, Slept: 300},
		Wake:  1000,
		Keys: func(values bool) iter.Seq2[importer.Entry, error] {
			return func(yield func(importer.Entry, error) bool) {
				for _, e := range entries {
					if e.Value = bytes.Clone(e.Value); !values {
						e.Value = nil
					}
					more := yield(e, nil)
					clear(e.Value) // it is valid until then
					if !more {
						return
					}
				}
			}
		},
	}
}

// do runs fn with the store that an engine has.
func do(t *testing.T, engine kv.Engine, fn func(*importer.Importer) error) error {
	t.Helper()
	store, err := actorstore.Open(t.Context(), engine, nil)
	if err != nil {
		return err
	}
	return errors.Join(fn(&importer.Importer{Store: store, Engine: engine}), store.Close())
}

// imports imports an actor.
func imports(t *testing.T, engine kv.Engine, a *importer.Actor) (r importer.Result, err error) {
	t.Helper()
	err = do(t, engine, func(im *importer.Importer) (err error) {
		r, err = im.Import(t.Context(), a)
		return err
	})
	return r, err
}

// contents are the keys of the actor, and when it must be woken, which is 0 for never. complete says that it has
// a record. What Check finds is an error.
func contents(t *testing.T, engine kv.Engine) (keys []string, wake int64, complete bool) {
	t.Helper()
	err := do(t, engine, func(im *importer.Importer) error {
		for f, err := range im.Store.Check(t.Context()) {
			t.Errorf("check: %v %v", f, err)
		}
		id, err := im.Store.Lookup(t.Context(), "room/x")
		if errors.Is(err, actorstore.ErrUnknownActor) {
			return nil
		}
		v, err := im.Store.View(t.Context(), id)
		if err != nil {
			return err
		}
		for e, err := range v.List(t.Context(), actorstore.ListOptions{}) {
			if err != nil {
				t.Error(err)
			}
			complete = complete || bytes.Equal(e.Key, rivetstore.RecordKey())
			keys = append(keys, fmt.Sprintf("%x %d %.8x", e.Key, len(e.Value), e.Value))
		}
		for w, err := range im.Store.Wakes(t.Context(), time.UnixMilli(math.MaxInt64), false) {
			if err != nil || w.ID != id {
				t.Errorf("the index says when to wake actor %v, not %v: %v", w.ID, id, err)
			}
			wake = w.At.UnixMilli()
		}
		return v.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys, wake, complete
}

// TestImport imports an actor, and imports it again.
func TestImport(t *testing.T) {
	t.Run("near", func(t *testing.T) { testImport(t, memkv.New()) })
	t.Run("far", func(t *testing.T) { testImport(t, faultkv.NewServer(func() kv.Engine { return memkv.New() })) })
}

func testImport(t *testing.T, engine kv.Engine) {
	r, err := imports(t, engine, source(300, 10))
	if err != nil || r.Outcome != importer.Imported || r.Keys != 300 || r.Bytes != 300*16 {
		t.Fatalf("%+v, %v", r, err)
	}
	before, wake, _ := contents(t, engine)
	if len(before) != 301 || wake != 1000 {
		t.Errorf("%d keys, to be woken at %d", len(before), wake)
	}
	err = do(t, engine, func(im *importer.Importer) error {
		v, err := im.Store.View(t.Context(), r.ID)
		if err != nil {
			return err
		}
		row, err := v.Get(t.Context(), rivetstore.RecordKey(), nil)
		if err != nil {
			return err
		}
		want := rivetstore.Record{Created: 100, Runner: "default", Started: 200, Slept: 300}
		if rec, err := rivetstore.ParseRecord(row); err != nil || !reflect.DeepEqual(rec, want) {
			t.Errorf("the record is %+v, %v", rec, err)
		}
		if v.Layout() != actorstore.LayoutRivetKit {
			t.Errorf("the layout is %v", v.Layout())
		}
		return v.Close()
	})
	if err != nil {
		t.Error(err)
	}
	again, err := imports(t, engine, source(1, 10))
	if err != nil || again != (importer.Result{Outcome: importer.Present, ID: r.ID}) {
		t.Errorf("again: %+v, %v", again, err)
	}
	if after, _, _ := contents(t, engine); !reflect.DeepEqual(before, after) {
		t.Error("an actor that is there was changed")
	}
}

// TestCutOff ends the process after each commit in turn. Until the last one the actor isn't complete, and the next run
// makes it whole, also from a source that has fewer keys then and no alarm.
func TestCutOff(t *testing.T) {
	whole, less := source(100, 100_000), source(10, 50_000) // of two commits and more, and of one
	less.Wake = 0
	for _, next := range []*importer.Actor{whole, less} {
		clean := memkv.New()
		if _, err := imports(t, clean, next); err != nil {
			t.Fatal(err)
		}
		want, wantWake, _ := contents(t, clean)
		resumed := 0
		for n := 0; ; n++ {
			below := memkv.New()
			if err := do(t, below, func(*importer.Importer) error { return nil }); err != nil { // makes the store
				t.Fatal(err)
			}
			engine := faultkv.New(below)
			engine.Tear(n)
			_, err := imports(t, engine, whole)
			if _, _, complete := contents(t, below); complete != (err == nil) {
				t.Errorf("after %d commits: complete is %v, %v", n, complete, err)
			}
			if err == nil {
				break
			}
			r, err := imports(t, below, next)
			if err != nil {
				t.Fatalf("after %d commits: %v", n, err)
			}
			if r.Outcome == importer.Resumed {
				resumed++
			}
			got, wake, complete := contents(t, below)
			if !reflect.DeepEqual(got, want) || wake != wantWake || !complete {
				t.Errorf("after %d commits: %d keys, want %d; to be woken at %d, want %d; complete is %v", n, len(got), len(want), wake, wantWake, complete)
			}
		}
		if resumed < 10 {
			t.Errorf("%d imports were resumed", resumed)
		}
	}
}

// TestSourceFails has the source fail in the middle: that is about this actor alone, and the next run goes on.
func TestSourceFails(t *testing.T) {
	engine := memkv.New()
	broken := errors.New("broken")
	a := source(100, 100_000)
	keys := a.Keys
	a.Keys = func(values bool) iter.Seq2[importer.Entry, error] {
		return func(yield func(importer.Entry, error) bool) {
			n := 0
			for e := range keys(values) {
				if n++; values && n == 60 {
					yield(importer.Entry{}, broken)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	_, err := imports(t, engine, a)
	if about := (*importer.ActorError)(nil); !errors.As(err, &about) || !errors.Is(err, broken) || about.Name != "room/x" {
		t.Errorf("%v", err)
	}
	if got, _, complete := contents(t, engine); len(got) < 40 || complete {
		t.Errorf("%d keys, complete is %v", len(got), complete)
	}
	if r, err := imports(t, engine, source(3, 3)); err != nil || r.Outcome != importer.Resumed {
		t.Errorf("%+v, %v", r, err)
	}
	if got, _, _ := contents(t, engine); len(got) != 4 {
		t.Errorf("%d keys", len(got))
	}
}

// TestRefused: nothing is written for actors that can't be imported.
func TestRefused(t *testing.T) {
	entry := func(key string, size int) *importer.Actor {
		return of([]importer.Entry{{Key: []byte(key), Value: make([]byte, size), Size: size}})
	}
	long := source(1, 1)
	long.State.Name = strings.Repeat("n", 300)
	for _, c := range []struct {
		name string
		a    *importer.Actor
		want error
		text string
	}{
		{"no keys", source(0, 0), nil, "no keys"},
		{"the engine's key", entry("he", 1), nil, "6865"},
		{"a long key", entry(strings.Repeat("\x04", 2047), 1), batch.ErrKeyTooLong, ""},
		{"a large value", entry("\x04k", 128<<10+1), batch.ErrValueTooLarge, "046b"},
		{"a long name", long, actorstore.ErrName, ""},
		{"too much", source(100, 100_000), actorstore.ErrQuota, ""},
	} {
		below := memkv.New()
		err := do(t, below, func(im *importer.Importer) error {
			if c.name == "too much" {
				im.Limits.Storage = 9_000_000
			}
			_, err := im.Import(t.Context(), c.a)
			return err
		})
		var about *importer.ActorError
		if !errors.As(err, &about) || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
		if keys, _, _ := contents(t, below); len(keys) != 0 {
			t.Errorf("%s: %q was written", c.name, keys)
		}
	}
	gone := source(1, 1)
	gone.State.Destroyed = true
	if r, err := imports(t, memkv.New(), gone); err != nil || r != (importer.Result{Outcome: importer.Destroyed}) {
		t.Errorf("an actor that was being destroyed: %+v, %v", r, err)
	}
}

// TestExists has actors of the same name that were made otherwise: they are left as they are.
func TestExists(t *testing.T) {
	put := func(layout actorstore.Layout, key, value []byte) func(*importer.Importer) error {
		return func(im *importer.Importer) error {
			a, err := im.Store.Named(context.Background(), "room/x", &actorstore.ActorOptions{Layout: layout})
			if err != nil {
				return err
			}
			return errors.Join(a.Put(context.Background(), key, value), a.Close())
		}
	}
	record := func(r rivetstore.Record) func(*importer.Importer) error {
		return put(actorstore.LayoutRivetKit, rivetstore.RecordKey(), r.Append(nil))
	}
	for _, c := range []struct {
		name string
		make func(*importer.Importer) error
		want error
	}{
		{"of Greenroom", put(actorstore.LayoutGreenroom, []byte{4, 'k'}, nil), importer.ErrExists},
		{"of another program", put(actorstore.LayoutRivetKit, []byte{4, 'k'}, nil), importer.ErrExists},
		{"started", record(rivetstore.Record{Created: 100, Generation: 1}), importer.ErrExists},
		{"made at another time", record(rivetstore.Record{Created: 101}), importer.ErrExists},
		{"with a damaged record", put(actorstore.LayoutRivetKit, rivetstore.RecordKey(), []byte{1, 0, 1}), kv.ErrCorrupt},
	} {
		engine := memkv.New()
		if err := do(t, engine, c.make); err != nil {
			t.Fatal(err)
		}
		before, _, _ := contents(t, engine)
		_, err := imports(t, engine, source(3, 3))
		if about := (*importer.ActorError)(nil); !errors.As(err, &about) || !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if after, _, _ := contents(t, engine); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: it was %q, and is %q", c.name, before, after)
		}
	}
}

// TestStoreFails has the store fail, and the caller give up: neither is about one actor.
func TestStoreFails(t *testing.T) {
	engine := faultkv.New(memkv.New())
	about := (*importer.ActorError)(nil)
	err := do(t, engine, func(im *importer.Importer) error {
		engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
		_, err := im.Import(t.Context(), source(3, 3))
		return err
	})
	if !errors.Is(err, faultkv.ErrInjected) || errors.As(err, &about) {
		t.Errorf("%v", err)
	}
	err = do(t, memkv.New(), func(im *importer.Importer) error {
		a := source(3, 3)
		a.Keys = func(bool) iter.Seq2[importer.Entry, error] {
			return func(yield func(importer.Entry, error) bool) { yield(importer.Entry{}, context.Canceled) }
		}
		_, err := im.Import(t.Context(), a)
		return err
	})
	if !errors.Is(err, context.Canceled) || errors.As(err, &about) {
		t.Errorf("%v", err)
	}
}
