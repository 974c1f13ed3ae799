//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
)

// TestItemsPostgres: the commands that read do so in a store in PostgreSQL that is open for reading.
func TestItemsPostgres(t *testing.T) {
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	err := withEngine(t.Context(), url, storeurl.OpenEngine, greenroom.Options{}, func(e kv.Engine) error {
		schema, err := itemstore.NewSchema(1, itemstore.TypeOf[student](nil))
		if err != nil {
			return err
		}
		_, err = itemstore.Open(t.Context(), e, "school", schema, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := program(t.Context(), strings.NewReader(""), "items", "ls", url, "--name", "nix")
	if !strings.Contains(r.stderr, storeurl.Display(url)) {
		t.Errorf("%+v", r)
	}
	must(t, "items", "put", url, "Student", `{"ID":7,"Name":"Ada"}`)
	if got := must(t, "items", "get", url, "/student-7"); got != `{"ID":7,"Class":0,"Name":"Ada"}`+"\n" {
		t.Errorf("got %q", got)
	}
	if got := must(t, "items", "check", url); got != "0 problems\n" {
		t.Errorf("got %q", got)
	}
	sync := strings.TrimSpace(must(t, "items", "sync", url, "/student-7"))
	must(t, "items", "rm", url, "/student-7")
	token := sync[strings.LastIndexByte(sync, '\n')+1:]
	if got := must(t, "items", "sync", url, token); !strings.HasPrefix(got, "deleted\t/student-7\t\t\n") {
		t.Errorf("got %q", got)
	}
}

// TestDocsPostgres: the commands make documents in a store in PostgreSQL, and read them where it is open for reading.
func TestDocsPostgres(t *testing.T) {
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	must(t, "docs", "mkdir", url, "/users")
	must(t, "docs", "put", url, "/users/john", "--type", "User", `{"name":"John Doe"}`)
	must(t, "docs", "create", url, "index", "/by-name", "User", "name")
	for _, tt := range []struct{ args, want string }{
		{"get URL /users/john", `{"name":"John Doe"}` + "\n"},
		{"ls URL /by-name/*doe", "/users/john\tdocument\tUser\t\n"},
		{"search URL /by-name john*", "/users/john\n"},
		{"check URL", "0 problems\n"},
	} {
		args := strings.Fields("docs " + tt.args)
		args[2] = url
		if got := must(t, args...); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
	r := program(t.Context(), strings.NewReader(""), "docs", "ls", url, "--name", "nix")
	if !strings.Contains(r.stderr, storeurl.Display(url)) {
		t.Errorf("%+v", r)
	}
}
