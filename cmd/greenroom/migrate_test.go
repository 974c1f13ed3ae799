package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// folder makes the folder migrations, with so many versions of a schema. The third one fails where there is a note "odd".
func folder(t *testing.T, n int) {
	t.Helper()
	if err := os.MkdirAll("migrations", 0o755); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{
		"-- +goose Up\ncreate table if not exists note(body text unique);\n-- +goose Down\ndrop table note;\n",
		"alter table note add column pinned integer not null default 7;\n",
		"insert into note(body) values ('odd');\n",
	}[:n] {
		if err := os.WriteFile(filepath.Join("migrations", fmt.Sprintf("%05d_step.sql", i+1)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// schemas returns how many actors of the type have each version of the schema.
func schemas(t *testing.T) map[uint64]int {
	t.Helper()
	store, err := greenroom.Open(t.Context(), "data", &greenroom.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	n := map[uint64]int{}
	for a, err := range store.Actors(t.Context(), &greenroom.ActorsOptions{Prefix: "notes/"}) {
		if err != nil {
			t.Fatal(err)
		}
		n[a.Attributes.Schema]++
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMigrateCommand: the actors of a type are brought up, the others aren't; what fails is listed, and stays as it is; a canary that fails ends it.
func TestMigrateCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	folder(t, 1)
	for i := range 6 {
		must(t, "sql", "data", fmt.Sprintf("notes/%d", i), fmt.Sprintf("create table note(body text unique); insert into note values ('%s')", []string{"odd", "even"}[i%2]))
	}
	must(t, "sql", "data", "other/1", "create table note(body text)")
	if got := must(t, "migrate", "data", "--type", "notes", "--dir", "migrations", "--dry-run"); strings.Count(got, "notes/") != 6 {
		t.Errorf("a dry run lists %q", got)
	}
	if got := schemas(t); len(got) != 1 || got[0] != 6 {
		t.Errorf("after a dry run there are %v", got)
	}
	if got := must(t, "migrate", "data", "--type", "notes", "--dir", "migrations", "--canary", "2", "--parallel", "3"); got != "6\n" {
		t.Errorf("%q were brought up", got)
	}
	folder(t, 2)
	must(t, "migrate", "data", "notes/1", "--dir", "migrations")
	if got := must(t, "migrate", "data", "--type", "notes", "--dir", "migrations"); got != "5\n" {
		t.Errorf("%q were brought up", got)
	}
	folder(t, 3)
	run := func(want string, args ...string) string {
		t.Helper()
		r := program(t.Context(), strings.NewReader(""), append([]string{"migrate", "data", "--type", "notes", "--dir", "migrations"}, args...)...)
		if r.code != serving.ExitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: status %d, %s, want %s", args, r.code, r.stderr, want)
		}
		return r.stderr
	}
	run("1 of 6 actors failed, and 5 were not tried", "--canary", "1")
	run("1 of 5 actors failed, and 4 were not tried", "--max-failures", "1", "--limit", "5")
	text := run("3 of 6 actors failed")
	for _, actor := range []string{"notes/0", "notes/2", "notes/4"} {
		if !strings.Contains(text, "greenroom: "+actor+": migration 3 step: ") {
			t.Errorf("%s isn't listed: %s", actor, text)
		}
	}
	if got := schemas(t); got[2] != 3 || got[3] != 3 {
		t.Errorf("there are %v", got)
	}
	for _, args := range [][]string{{"--type", "notes"}, {"--dir", "migrations"}, {"--dir", "migrations", "--type", "a/b"}, {"--dir", "migrations", "--type", "a", "--parallel", "0"}} {
		if r := program(t.Context(), strings.NewReader(""), append([]string{"migrate", "data"}, args...)...); r.code != serving.ExitUsage {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := program(t.Context(), strings.NewReader(""), "migrate", "data", "--type", "notes", "--dir", "nowhere"); r.code != serving.ExitFailed || !strings.Contains(r.stderr, "there is no folder nowhere") {
		t.Errorf("without a folder: %+v", r)
	}
}
