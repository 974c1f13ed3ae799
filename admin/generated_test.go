package admin_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// TestGeneratedClient: a client that a generator made of the document reads all that the API has to read. Of the stream of events it makes the request only:
// what it is answered is read with net/http, since generators know of no streams.
func TestGeneratedClient(t *testing.T) {
	testkit.OnlyLong(t, "it compiles a generator and what that has written")
	dir := t.TempDir()
	main, err := os.ReadFile(filepath.Join("testdata", "client", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	// Of the client's own: nothing of the generator is in this module.
	for name, text := range map[string]string{"go.mod": "module client\n\ngo 1.26.0\n", "main.go": string(main)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runGo(t, ".", "go", "run", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.5.1",
		"-generate", "types,client", "-package", "main", "-o", filepath.Join(dir, "client.go"), "openapi.json")
	runGo(t, dir, "go", "get", "github.com/oapi-codegen/runtime@v1.1.2")
	const secret = "0123456789abcdef"
	got := runGo(t, dir, "go", "run", ".", "http://"+serveRoom(t, secret), secret)
	if n := strings.Count(got, " ok\n"); n < 16 || !strings.Contains(got, "events ok\n") || !strings.Contains(got, "pages of 2 ok\nkey ok\nrows ok\n") || strings.Count(got, "\n") != n {
		t.Errorf("the client said\n%s", got)
	}
}

// runGo returns what a program writes to standard output.
func runGo(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// serveRoom serves a store with one actor, room, that has everything, and returns the address.
func serveRoom(t *testing.T, secret string) string {
	t.Helper()
	engine := memkv.New()
	store, err := greenroom.New(t.Context(), engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := store.Actor(t.Context(), "room", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Update(t.Context(), func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("create table message(text); insert into message values ('hello')"); err != nil {
			return err
		}
		if _, err := tx.Enqueue(queue.Send{Name: "note", Body: map[string]any{"hello": "world"}}); err != nil {
			return err
		}
		return greenroom.SetState(tx, map[string]int{"visits": 7})
	})
	if err == nil {
		_, err = greenroom.RunWorkflow(t.Context(), a, func(c *workflow.Context, n int) (int, error) {
			if _, err := workflow.Step(c, "add", func(context.Context) (int, error) { return n + 1, nil }); err != nil {
				return 0, err
			}
			return workflow.Step(c, "double", func(context.Context) (int, error) { return 2 * n, nil })
		}, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := admin.Serve(t.Context(), ln, store, &admin.Options{Tokens: []admin.Token{{Name: "client", Role: admin.RoleRead, Secret: secret}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{server, a, store, engine} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return ln.Addr().String()
}
