// Package rig opens an actor on an engine that counts and fails, for the tests of what an actor has.
package rig

import (
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// Options say what a Rig has. The zero value is an actor of Greenroom's own layout in memory.
type Options struct {
	// Below is the engine, nil for one in memory. The test closes it at its end.
	Below kv.Engine
	// Limits are the store's, but for those that the environment says where they are open.
	Limits batch.Limits
	// CacheBytes is actorstore.Options.CacheBytes.
	CacheBytes int64
	// Layout is the actor's.
	Layout actorstore.Layout
}

// A Rig is an actor, named lobby, on an engine that counts and fails. It is closed at the end of the test.
type Rig struct {
	Options
	Engine *faultkv.Engine
	Store  *actorstore.Store
	Actor  *actorstore.Actor
}

// New returns a Rig. It fails the test if it can't be made.
func New(t testing.TB, opts Options) *Rig {
	t.Helper()
	if opts.Below == nil {
		opts.Below = memkv.New()
	}
	r := &Rig{Options: opts, Engine: faultkv.New(opts.Below)}
	t.Cleanup(func() {
		if err := opts.Below.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Reopen(t, opts.Limits)
	return r
}

// Limits returns limits with what the environment says for those left open.
func Limits(t testing.TB, limits batch.Limits) batch.Limits {
	t.Helper()
	limits, err := envlimits.Apply(limits)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// Reopen closes the actor, and opens another Store and the actor there, as after a restart, with limits and the other Options as they are now.
func (r *Rig) Reopen(t testing.TB, limits batch.Limits) {
	t.Helper()
	r.Limits = limits
	if r.Actor != nil {
		if err := r.Actor.Close(); err != nil {
			t.Fatal(err)
		}
	}
	store, err := actorstore.Open(t.Context(), r.Engine, &actorstore.Options{Limits: Limits(t, r.Limits), CacheBytes: r.CacheBytes})
	if err != nil {
		t.Fatal(err)
	}
	actor, err := store.Named(t.Context(), "lobby", &actorstore.ActorOptions{Layout: r.Layout})
	if err != nil {
		t.Fatal(err)
	}
	r.Store, r.Actor = store, actor
	t.Cleanup(func() {
		if err := actor.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Counted returns what the quota counts, from the actor's keys.
func Counted(t testing.TB, a *actorstore.Actor) (total int64) {
	t.Helper()
	for e, err := range a.List(t.Context(), actorstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		total += int64(len(e.Key) + batch.WrapperBytes + len(e.Value))
	}
	return total
}

// Exact fails the test unless the actor believes that as much is used as its keys hold.
func Exact(t testing.TB, a *actorstore.Actor) {
	t.Helper()
	if used, want := a.Used(), Counted(t, a); used != want {
		t.Errorf("the actor believes that %d bytes are used, its keys hold %d", used, want)
	}
}
