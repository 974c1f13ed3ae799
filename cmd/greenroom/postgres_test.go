//go:build unix

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/workflow"
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
			name := n.URL("schema=" + n.Schema())
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
				out := report(program(t.Context(), strings.NewReader(stdin), args...))
				return strings.ReplaceAll(out, storeurl.Display(name), "data")
			})
		})
	}
}

// TestRecordsPostgres: the commands for what an actor has besides keys, messages and a
// database do in PostgreSQL what they do in a folder.
func TestRecordsPostgres(t *testing.T) {
	n := pgtest.Shared(t)
	t.Chdir(t.TempDir())
	millis := regexp.MustCompile(`\b[0-9]{13}\b`)
	var said [2]string
	for i, store := range []string{"data", n.URL("schema=" + n.Schema())} {
		storeRecords(t, store)
		for _, line := range []string{
			"state show STORE lobby", "state show --json STORE lobby",
			"conns ls STORE lobby", "conns ls --json STORE lobby", "conns discard STORE lobby b", "conns discard STORE lobby a",
			"conns discard --stray STORE lobby", "conns ls STORE lobby",
			"traces ls STORE lobby", "traces show STORE lobby 05000000000000000000000000000000",
			"workflow ls STORE", "workflow show STORE lobby", "workflow show --json STORE lobby", "workflow save STORE lobby",
			"workflow retry STORE lobby", "workflow replay STORE lobby charge", "workflow cancel STORE lobby", "workflow show STORE lobby",
			"ls STORE lobby", "fork STORE lobby copy", "conns ls STORE copy", "check STORE",
		} {
			args := words(line)
			for j := range args {
				args[j] = strings.Replace(args[j], "STORE", store, 1)
			}
			out := report(program(t.Context(), strings.NewReader(""), args...))
			out = millis.ReplaceAllString(strings.ReplaceAll(out, storeurl.Display(store), "data"), "MILLIS")
			said[i] += "$ " + line + "\n" + out
		}
	}
	if said[0] != said[1] {
		t.Errorf("on PostgreSQL\n%s\nin a folder\n%s", said[1], said[0])
	}
	if want := "no problems"; !strings.Contains(said[1], want) || strings.Contains(said[1], "usage:") {
		t.Errorf("%s", said[1])
	}
}

// storeRecords makes the actor lobby with a record, connections, a trace and a workflow.
func storeRecords(t *testing.T, store string) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	err := ownBelow(t.Context(), target{url: store, actor: "lobby", create: true}, func(a *actorstore.Actor) error {
		rec, err := connRecord("a", `{"gateway": "01020304", "request": "0a0b0c0d", "path": "/"}`)
		err = errors.Join(err, a.Put(t.Context(), actorstore.AppendConnection(nil, "a"), rec),
			a.Put(t.Context(), actorstore.AppendConnection(nil, "b"), []byte{4, 0, 1}),
			storeRecord(t.Context(), a, `{"Input": 7, "State": {"count": 3}}`))
		if err != nil {
			return err
		}
		tr, err := traces.Open(t.Context(), a, &traces.Options{MaxAge: -1})
		if err != nil {
			return err
		}
		start := time.Unix(1_700_000_000, 0)
		tr.Record(&traces.SpanData{TraceID: traces.TraceID{5}, SpanID: traces.SpanID{6}, Name: "visit", Start: start, End: start.Add(time.Second)})
		if err := tr.Close(t.Context()); err != nil {
			return err
		}
		q, err := queue.Open(t.Context(), a, &queue.Options{Env: part.Env{Logger: quiet}})
		if err != nil {
			return err
		}
		ids := 0
		w, err := workflow.Open(t.Context(), a, order, &workflow.Options{Queue: q, Env: part.Env{Logger: quiet}, ShortWait: -1,
			NewID: func() string { ids++; return fmt.Sprintf("00000000-0000-4000-8000-%012x", ids) }})
		if err != nil {
			return errors.Join(err, q.Close())
		}
		if err = w.Start(t.Context(), "declined"); err == nil {
			_, err = w.Run(t.Context()) // as far as it comes
		}
		return errors.Join(err, w.Close(), q.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPostgresMessages: what goes wrong with a server is a sentence, without the
// password.
func TestPostgresMessages(t *testing.T) {
	// A port that was free a moment ago may be taken by now; nothing listens on this one.
	const nobody = "127.0.0.1:1"
	n := pgtest.Shared(t)
	other := n.Schema()
	n.SQL(t, fmt.Sprintf("CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.t(x int)", other))
	secret := strings.Replace(n.URL("schema="+other), "postgres@", "postgres:secret@", 1)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"ls", secret}, serving.ExitFailed, "is there, but it is not a store"},
		{[]string{"put", secret, "a", "k", "v"}, serving.ExitFailed, "is there, but it is not a store"},
		{[]string{"ls", strings.Replace(secret, other, "nothing", 1)}, serving.ExitFailed, "there is no store at postgres://postgres@127.0.0.1"},
		{[]string{"ls", strings.Replace(secret, "postgres://", "postgres:/", 1)}, serving.ExitUsage, "not the name of a store"},
		{[]string{"ls", "postgres://u:secret@" + nobody + "/d?sslmode=disable&retry=10ms"}, serving.ExitFailed, "no server is available"},
	} {
		r := program(t.Context(), strings.NewReader(""), test.args...)
		if r.code != test.code || !strings.Contains(r.stderr, test.want) || strings.Contains(r.stderr, "secret") {
			t.Errorf("%s %s: status %d, %q, want %q", test.args[0], storeurl.Display(test.args[1]), r.code, r.stderr, test.want)
		}
	}
}
