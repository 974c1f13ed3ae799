package admin_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A deaf transport has a client that hears nothing but why its connection ends.
type deaf struct{ closed chan string }

func (deaf) Send(host.Event)       {}
func (d deaf) Close(reason string) { d.closed <- reason }

// TestAwake wakes an actor of a host over HTTP, puts it to sleep, and ends its connections.
func TestAwake(t *testing.T) {
	r := newRig(t, admin.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "hosted")
	s, err := greenroom.Open(t.Context(), dir, nil)
	must(err)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	left := ""
	h, err := host.Open(t.Context(), s.Engine(), []*host.Type{{
		Name: "cell", Disconnect: func(_ *host.Context, _ *host.Conn, reason string) error { left += reason + ";"; return nil },
	}}, &host.Options{Logger: log})
	must(err)
	server, err := admin.Listen(t.Context(), dir, s, &admin.Options{Actors: h, Logger: log})
	must(err)
	client, err := admin.Dial(t.Context(), dir)
	must(err)
	defer func() {
		client.Close()
		must(errors.Join(server.Close(), h.Close(t.Context()), s.Close()))
	}()
	cell := host.Address{Type: "cell", Key: "a"}
	must(h.Create(t.Context(), cell, nil))
	on := &rig{T: t, dir: dir}
	post := func(verb, body string, want int, says string) {
		t.Helper()
		if status, text := on.ask(http.MethodPost, "/v1/actors/cell%2Fa/"+verb, body); status != want || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want %d %s", verb, status, text, want, says)
		}
	}
	awake := func(want int) {
		t.Helper()
		if n := h.Stats().Awake; n != want {
			t.Errorf("%d actors are awake, want %d", n, want)
		}
	}
	for range 2 {
		post("sleep", "{}", 200, "{}")
		awake(0)
		post("wake", "{}", 200, "{}")
		awake(1)
	}
	transport := deaf{make(chan string, 2)}
	joined, err := h.Join(t.Context(), &host.Join{Actor: cell, Transport: transport})
	must(err)
	post("sleep", "{}", 409, `"code":"in_use","message":"the actor cell/a: it is kept awake by connections that don't hibernate (1)"`)
	awake(1)
	must(testkit.Second(admin.Disconnect.Ask(t.Context(), client, cell.String(), &admin.DisconnectIn{ID: string(joined.ID)})))
	post("sleep", "{}", 200, "{}")
	joined, err = h.Join(t.Context(), &host.Join{Actor: cell, Transport: transport, Hibernate: true})
	must(err)
	post("sleep", "{}", 200, "{}")
	post("connections/disconnect", `{"id":"`+string(joined.ID)+`","reason":"maintenance"}`, 200, "{}")
	awake(1)
	post("connections/disconnect", `{"id":"`+string(joined.ID)+`"}`, 404, "no such connection")
	post("connections/disconnect", `{"id":"hex:0"}`, 400, "invalid")
	if a, b := <-transport.closed, <-transport.closed; a != "disconnected by a tool" || b != "maintenance" || left != a+";"+b+";" {
		t.Errorf("the clients are told %q and %q, the actor %q", a, b, left)
	}
	if status, text := on.ask(http.MethodPost, "/v1/actors/cell%2Fnix/wake", "{}"); status != 404 {
		t.Errorf("an actor that isn't there: %d %s", status, text)
	}
	// A store without a host.
	if status, text := r.ask(http.MethodPost, "/v1/actors/room/wake", "{}"); status != 501 || !strings.Contains(text, "no process runs the actors of this store") {
		t.Errorf("a store alone: %d %s", status, text)
	}
}
