package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A fixture is an actor on an engine that counts.
type fixture struct{ rig.Rig }

// newRig opens an actor in memory.
func newRig(t testing.TB, limits batch.Limits) *fixture {
	t.Helper()
	return newRigOn(t, memkv.New(), limits)
}

func newRigOn(t testing.TB, engine kv.Engine, limits batch.Limits) *fixture {
	t.Helper()
	return &fixture{*rig.New(t, rig.Options{Below: engine, Limits: limits, Layout: layout})}
}

// open opens a pool on the rig's actor.
func (r *fixture) open(t testing.TB, opts *vfs.Options) *vfs.DB {
	t.Helper()
	db, err := vfs.Open(t.Context(), r.Actor, opts)
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

// isStored says whether r has key.
func isStored(t testing.TB, r actorstore.Reader, key []byte) bool {
	t.Helper()
	_, err := r.Get(t.Context(), key, nil)
	if err != nil && !errors.Is(err, actorstore.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}
