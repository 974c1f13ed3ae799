package main

import (
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestAwakeCommands: wake, sleep and conns disconnect ask the host that has the store open, and say so if no host has.
func TestAwakeCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "counter/lobby", "k", "v")
	refused := func(want string, args ...string) {
		t.Helper()
		if r := program(t.Context(), strings.NewReader(""), args...); r.code != serving.ExitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %s", args, r, want)
		}
	}
	for _, verb := range [][]string{{"wake", "data", "counter/lobby"}, {"sleep", "data", "counter/lobby"}, {"conns", "disconnect", "data", "counter/lobby", "x"}} {
		refused("no process runs the actors of this store", verb...)
	}
	must(t, "put", "data", "notes", "k", "v")
	h, end := hostedHere(t, "data")
	defer end()
	for range 2 {
		must(t, "wake", "data", "counter/lobby")
		if s := h.Stats(); s.Awake != 1 {
			t.Errorf("%+v after wake", s)
		}
	}
	held, err := h.Join(t.Context(), &host.Join{Actor: host.Address{Type: "counter", Key: "lobby"}, Transport: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	refused("the actor counter/lobby: it is kept awake by connections that don't hibernate (1)", "sleep", "data", "counter/lobby")
	refused("the actor notes: no such type", "wake", "data", "notes")
	must(t, "conns", "disconnect", "--reason", "out", "data", "counter/lobby", string(held.ID))
	refused("the actor counter/lobby: no such connection", "conns", "disconnect", "data", "counter/lobby", string(held.ID))
	for range 2 {
		must(t, "sleep", "data", "counter/lobby")
		if s := h.Stats(); s.Awake != 0 {
			t.Errorf("%+v after sleep", s)
		}
	}
}

// A silent transport has a client that hears nothing.
type silent struct{}

func (silent) Send(host.Event) {}
func (silent) Close(string)    {}
