package host

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
)

// versions returns a type whose actors have notes, with so many of its migrations. Its Create and its Wake use the schema of the last one.
func versions(n int, woken *atomic.Int64) *Type {
	all := greenroom.Migrations{
		{Version: 1, Name: "notes", SQL: "create table note(body text)"},
		{Version: 2, Name: "pins", SQL: "alter table note add column pinned integer not null default 7"},
		{Version: 3, Name: "broken", SQL: "alter table note add column more; alter table nothing add column x"},
	}[:n]
	return &Type{
		Name: "thing", Migrations: all,
		Create: func(c *Context) error {
			_, err := c.Exec("insert into note(body) values ('first')")
			return err
		},
		Wake: func(*Context) error { woken.Add(1); return nil },
		Actions: []AnyAction{NewAction("pinned", func(c *Context, _ struct{}) (n int, err error) {
			return n, c.QueryRow("select sum(pinned) from note").Scan(&n)
		})},
	}
}

// TestMigrations: actors are brought up when they wake, before their code, in one commit; one that can't be, or is newer, doesn't wake, and stays as it is.
func TestMigrations(t *testing.T) {
	var woken atomic.Int64
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		next := func(n int) {
			t.Helper()
			r.close()
			r.types = []*Type{versions(n, &woken)}
			r.open()
		}
		schema := func(want uint64) {
			t.Helper()
			at := uint64(0)
			must(t, r.Visit(r.ctx, idOf(lobby), func(_ context.Context, a *greenroom.Actor) error { at = a.Lower().Attributes().Schema; return nil }))
			if at != want {
				t.Errorf("the actor has version %d, want %d", at, want)
			}
		}
		_, err := invoke[int](r.ctx, r.Host, lobby, "pinned", nil)
		if err == nil {
			t.Error("there is a column that the first version hasn't")
		}
		schema(1)
		next(2)
		if n := r.call(lobby, "pinned", nil); n != 7 {
			t.Errorf("after the second migration %d", n)
		}
		schema(2)
		before := woken.Load()
		next(3)
		_, err = invoke[int](r.ctx, r.Host, lobby, "pinned", nil)
		if err == nil || errors.Is(err, greenroom.ErrNewerSchema) {
			t.Errorf("the third migration: %v", err)
		}
		schema(2)
		next(1)
		_, err = invoke[int](r.ctx, r.Host, lobby, "pinned", nil)
		wantErr(t, err, greenroom.ErrNewerSchema)
		if Code(err) != "newer_schema" || woken.Load() != before {
			t.Errorf("code %s, its Wake was called %d times", Code(err), woken.Load()-before)
		}
		schema(2)
		next(2)
		commits := r.engine.Counts().Commits
		r.call(lobby, "pinned", nil)
		if n := r.engine.Counts().Commits - commits; n > 1 { // the head is taken over
			t.Errorf("waking one that is up took %d commits", n)
		}
		a := Address{"thing", "new"}
		if n := r.call(a, "pinned", nil); n != 7 {
			t.Errorf("a new actor has %d", n)
		}
	}, versions(1, &woken))
}
