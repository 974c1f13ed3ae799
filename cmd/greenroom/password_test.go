package main

import (
	"os"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestNoPassword: an address with a slip in it makes no folder, and whatever is wrong with
// how the program was called, it doesn't print the password.
func TestNoPassword(t *testing.T) {
	t.Chdir(t.TempDir())
	slip := `looks like the address of a server with a slip in it; an address begins with postgres://, and a directory of that name is written ./NAME or pebble:NAME`
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"ls", "postgres//u:secret@h/d"}, `not the name of a store: "postgres//…@h/d" ` + slip},
		{[]string{"sql", "postgres//u:secret@h/d", "a", "select 1"}, `not the name of a store: "postgres//…@h/d" ` + slip},
		{[]string{"put", "postgres/u:secret@h/d", "a", "k", "v"}, `not the name of a store: "postgres/u:…" ` + slip},
		{[]string{"put", "//u:secret@h/d", "a", "k", "v"}, `not the name of a store: "//…@h/d" ` + slip},
		{[]string{"put", "u:secret@h/d", "a", "k", "v"}, `not the name of a store: "u:…" ` + slip},
		{[]string{"put", "postgres:/u:secret@h/d", "a", "k", "v"}, "not the name of a store: it doesn't begin with postgres://"},
		{[]string{"put", "mysql://u:secret@h/d", "a", "k", "v"}, `no engine is called "mysql"`},
		{[]string{"put", "pebble://u:secret@h/d", "a", "k", "v"}, `"pebble://…@h/d": pebble: takes a directory`},
		{[]string{"check", "postgres//h/d?password=secret"}, `"postgres//h/d?…" looks like`},
		{[]string{"fork", "postgres//u:secret@h/d", "a", "b"}, slip},
		{[]string{"export", "postgres//u:secret@h/d", "a", "f.db"}, slip},
		{[]string{"import", "postgres//u:secret@h/d", "a", "f.db"}, ""},
		{[]string{"queue", "ls", "postgres//u:secret@h/d", "a"}, slip},
		// No store is expected here.
		{[]string{"postgres://u:secret@h/d"}, `there is no command "postgres://…@h/d"`},
		{[]string{"postgres:u:secret@h/d"}, `there is no command "postgres:…"`},
		{[]string{"-postgres://u:secret@h/d"}, "has no flag -postgres://…@h/d"},
		{[]string{"--x=postgres://u:secret@h/d"}, "has no flag --x"},
		{[]string{"ls", "--json=postgres://u:secret@h/d", "data"}, `--json takes true or false, not "postgres://…@h/d"`},
		{[]string{"ls", "data", "id:postgres://u:secret@h/d"}, ""},
		{[]string{"import", "data", "a", "postgres://u:sec\"ret@h/d"}, ""},
	} {
		r := program(t.Context(), strings.NewReader(""), test.args...)
		if r.code == serving.ExitOK || r.stderr == "" || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%q: status %d, %q, want %q", test.args, r.code, r.stderr, test.want)
		}
		if strings.Contains(r.stdout+r.stderr, "secret") || strings.Contains(r.stdout+r.stderr, "ret@") {
			t.Errorf("%q prints the password: %q, %q", test.args, r.stdout, r.stderr)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestRedacted: what isn't an address is quoted as it was typed.
func TestRedacted(t *testing.T) {
	args := []string{"get", "a", "user:ada@example.org", "postgres://u:p@h", `--x=a//b:"@c`}
	got := serving.Redacted(`no key user:ada@example.org, postgres://u:p@h, "a//b:\"@c"`, args)
	if want := `no key user:ada@example.org, postgres://…@h, "a//…@c"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
