//go:build unix

package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// TestCommandsPostgres runs the commands in testdata/commands once more, with a store
// in PostgreSQL wherever they say data, and wants the same output.
func TestCommandsPostgres(t *testing.T) {
	n := pgtest.Shared(t)
	paths, err := filepath.Glob("testdata/commands/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no commands: %v", err)
	}
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Chdir(t.TempDir())
			name := n.URL("schema=" + n.Schema(t))
			datadriven.RunTest(t, abs, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd != "greenroom" {
					return directive(t, d)
				}
				line, stdin, _ := strings.Cut(d.Input, "\n")
				args := words(line)
				for i := range args {
					if args[i] == "data" {
						args[i] = name
					}
				}
				out := report(greenroom(t.Context(), strings.NewReader(stdin), args...))
				return strings.ReplaceAll(out, storeurl.Display(name), "data")
			})
		})
	}
}

// TestPostgresMessages: what goes wrong with a server is a sentence, without the
// password.
func TestPostgresMessages(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := pgtest.Shared(t)
	other := n.Schema(t)
	n.SQL(t, fmt.Sprintf("CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.t(x int)", other))
	secret := strings.Replace(n.URL("schema="+other), "postgres@", "postgres:secret@", 1)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"ls", secret}, exitFailed, "is there, but it is not a store"},
		{[]string{"put", secret, "a", "k", "v"}, exitFailed, "is there, but it is not a store"},
		{[]string{"ls", strings.Replace(secret, other, "nothing", 1)}, exitFailed, "there is no store at postgres://postgres@127.0.0.1"},
		{[]string{"ls", strings.Replace(secret, "postgres://", "postgres:/", 1)}, exitUsage, "not the name of a store"},
		{[]string{"ls", "postgres://u:secret@" + nobody + "/d?sslmode=disable&retry=10ms"}, exitFailed, "no server is available"},
	} {
		r := greenroom(t.Context(), strings.NewReader(""), test.args...)
		if r.code != test.code || !strings.Contains(r.stderr, test.want) || strings.Contains(r.stderr, "secret") {
			t.Errorf("%s %s: status %d, %q, want %q", test.args[0], storeurl.Display(test.args[1]), r.code, r.stderr, test.want)
		}
	}
}
