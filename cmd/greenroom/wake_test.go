package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/workflow"
)

// TestCommandWakes: a running host on PostgreSQL does what the program stores in its actors while they sleep: a message that is sent
// to one, and a workflow that is to be retried.
func TestCommandWakes(t *testing.T) {
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	engine, err := pgkv.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	done, fails := make(chan string, 100), 1
	start := host.NewCommand("start", func(c *host.Context, _ struct{}) error { return c.StartWorkflow(1) })
	room := &host.Type{
		Name:         "room",
		Actions:      []host.AnyAction{start},
		MessageNames: []string{"hello"},
		Message:      func(_ *host.Context, m *greenroom.Message) error { done <- m.Name; return nil },
		Workflow: host.NewWorkflow(func(c *workflow.Context, n int) (int, error) {
			done <- "run"
			if fails--; fails >= 0 {
				return 0, fmt.Errorf("not today")
			}
			return n, nil
		}, nil),
	}
	h, err := host.Open(t.Context(), engine, []*host.Type{room}, &host.Options{IdleTimeout: time.Millisecond, Rescan: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string) {
		t.Helper()
		select {
		case got := <-done:
			if got != what {
				t.Errorf("it has done %q, want %q", got, what)
			}
		case <-time.After(testkit.Patience(20 * time.Second)):
			t.Fatalf("%s: nothing was done", what)
		}
	}
	asleep := func() {
		t.Helper()
		tick, end := time.NewTicker(10*time.Millisecond), time.After(testkit.Patience(20*time.Second))
		defer tick.Stop()
		for h.Stats().Awake > 0 {
			select {
			case <-tick.C:
			case <-end:
				t.Fatal("the actor stays awake")
			}
		}
	}
	if err := start.Call(t.Context(), h, "lobby", struct{}{}); err != nil {
		t.Fatal(err)
	}
	want("run")
	for _, command := range []struct {
		args []string
		does string
	}{
		{[]string{"queue", "send", url, "room/lobby", "hello", "{}"}, "hello"},
		{[]string{"workflow", "retry", url, "room/lobby"}, "run"},
		{[]string{"queue", "send", url, "room/lobby", "hello", "{}"}, "hello"},
	} {
		asleep()
		if r := program(t.Context(), strings.NewReader(""), command.args...); r.code != 0 {
			t.Fatalf("%q: %+v", command.args, r)
		}
		want(command.does)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
