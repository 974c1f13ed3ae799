//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestCopyPostgres: a copy in PostgreSQL, and one of that in a directory again, have every key of the actor, which a host has open.
func TestCopyPostgres(t *testing.T) {
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	t.Chdir(t.TempDir())
	must(t, "sql", "data", "chat/lobby", "create table t(a); insert into t values (randomblob(300000)); create virtual table f using fts5(x); insert into f values ('one two')")
	must(t, "put", "data", "chat/lobby", "greeting", "hello")
	must(t, "queue", "send", "data", "chat/lobby", "order", `{"item":1}`)
	must(t, "label", "data", "chat/lobby", "customer=42")
	keys := func(store, actor string) string {
		var rows []string
		for line := range strings.Lines(must(t, "ls", store, actor)) {
			rows = append(rows, times.ReplaceAllString(line, ""))
		}
		return strings.Join(slices.Sorted(slices.Values(rows)), "")
	}
	want, dump := keys("data", "chat/lobby"), must(t, "sql", "data", "chat/lobby", ".dump")
	end := hosted(t, "data")
	must(t, "copy", "data", "chat/lobby", url)
	end()
	must(t, "copy", url, "chat/lobby", "again", "chat/back")
	for store, actor := range map[string]string{url: "chat/lobby", "again": "chat/back"} {
		if got := keys(store, actor); got != want {
			t.Errorf("%s has\n%s\nnot\n%s", actor, got, want)
		}
		if got := must(t, "sql", "--read-only", store, actor, ".dump"); got != dump {
			t.Errorf("%s has another database", actor)
		}
		if got := must(t, "sql", "--read-only", store, actor, "select x from f where f match 'two'"); got != "one two\n" {
			t.Errorf("%s: %q", actor, got)
		}
		if got := must(t, "ls", store, "--label", "customer=42"); !strings.Contains(got, actor) {
			t.Errorf("%s isn't found by its label: %q", actor, got)
		}
		if got := must(t, "queue", "peek", store, actor); !strings.Contains(got, `{"item":1}`) {
			t.Errorf("%s: %q", actor, got)
		}
		if got := must(t, "check", store); !strings.HasSuffix(got, "no problems\n") {
			t.Errorf("check: %s", got)
		}
	}
}

// TestCopyBusy: a store that a host has open is read, and not written to.
func TestCopyBusy(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "lobby", "k", "v")
	must(t, "put", "other", "music", "k", "v")
	defer hosted(t, "other")()
	r := program(t.Context(), strings.NewReader(""), "copy", "data", "lobby", "other")
	if r.code != serving.ExitFailed || !strings.HasPrefix(r.stderr, "greenroom: the store other is in use: process ") ||
		!strings.HasSuffix(r.stderr, " has it open, and an actor is copied only to a store that is closed, or in PostgreSQL\n") {
		t.Errorf("%+v", r)
	}
	r = program(t.Context(), strings.NewReader(""), "copy", "data", "lobby", "./data", "again")
	if r.code != serving.ExitUsage || !strings.HasPrefix(r.stderr, "greenroom: both are the same store: greenroom fork copies an actor within one\n") {
		t.Errorf("%+v", r)
	}
	id := actorstore.NewID().String()
	must(t, "copy", "other", "music", "data", "id:"+id)
	if got := must(t, "get", "data", "id:"+id, "k"); got != "v" {
		t.Errorf("the copy has %q", got)
	}
}

// TestCompleteActors: a shell is told the actors of a store, also while a host has it open.
func TestCompleteActors(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, actor := range []string{"room/1", "room/2", "lobby"} {
		must(t, "put", "data", actor, "k", "v")
	}
	look := func() {
		t.Helper()
		for args, want := range map[string]string{
			"sql data ": "lobby\nroom/1\nroom/2\n:4\n", "export data room/": "room/1\nroom/2\n:4\n", "queue ls data l": "lobby\n:4\n",
			"sql nowhere ": ":4\n", "sql ": ":0\n", "get data lobby ": ":0\n", "ls data lo": "lobby\n:4\n",
		} {
			words := strings.Split("__complete "+args, " ")
			if got := must(t, words...); got != want {
				t.Errorf("%s: %q, not %q", args, got, want)
			}
		}
	}
	look()
	defer hosted(t, "data")()
	look()
}
