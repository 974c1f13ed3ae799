package vfs

import (
	"context"
	"database/sql"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A rig is an actor on an engine that counts.
type rig struct {
	engine     *faultkv.Engine
	store      *actorstore.Store
	actor      *actorstore.Actor
	cacheBytes int64 // of the store; see actorstore.Options
}

// fromEnv returns limits with what the environment says for those left open.
func fromEnv(t testing.TB, limits batch.Limits) batch.Limits {
	t.Helper()
	limits, err := envlimits.Apply(limits)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// newRig opens an actor in memory.
func newRig(t testing.TB, limits batch.Limits) *rig {
	t.Helper()
	return newRigOn(t, memkv.New(), limits)
}

func newRigOn(t testing.TB, engine kv.Engine, limits batch.Limits) *rig {
	t.Helper()
	r := &rig{engine: faultkv.New(engine)}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	r.reopen(t, limits)
	return r
}

// reopen opens the store again, as after a restart, with other limits.
func (r *rig) reopen(t testing.TB, limits batch.Limits) {
	t.Helper()
	if r.actor != nil {
		if err := r.actor.Close(); err != nil {
			t.Fatal(err)
		}
	}
	store, err := actorstore.Open(t.Context(), r.engine, &actorstore.Options{Limits: fromEnv(t, limits), CacheBytes: r.cacheBytes})
	if err != nil {
		t.Fatal(err)
	}
	r.store = store
	if r.actor, err = store.Named(t.Context(), "lobby", &actorstore.ActorOptions{Layout: layout}); err != nil {
		t.Fatal(err)
	}
	actor := r.actor
	t.Cleanup(func() {
		if err := actor.Close(); err != nil {
			t.Error(err)
		}
	})
}

// open opens a pool on the rig's actor.
func (r *rig) open(t testing.TB, opts *Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), r.actor, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func exec(t testing.TB, db execer, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// one returns the single value that query yields.
func one[T any](t testing.TB, db queryer, query string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// intact fails the test unless SQLite finds the database whole.
func intact(t testing.TB, db queryer) {
	t.Helper()
	if got := one[string](t, db, "PRAGMA integrity_check"); got != "ok" {
		t.Fatalf("integrity_check: %s", got)
	}
}
