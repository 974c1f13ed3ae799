package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// socket opens a client's WebSocket to an actor.
func (p *program) socket(id string) (*websocket.Conn, rp.TunnelID) {
	p.Helper()
	ws := p.dial("/gateway/"+id+"/websocket/x", "rivet")
	return ws, toActor[rp.SocketOpen](p).ID.Tunnel
}

// text returns the next message of a WebSocket.
func (r *rig) text(ws *websocket.Conn) string {
	r.Helper()
	_, b, err := ws.Read(r.Context())
	must(r, err)
	return string(b)
}

// TestOrderAcrossSockets: what an actor says is sent in its order, over whichever socket.
func TestOrderAcrossSockets(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	one, first := p.socket(id)
	two, second := p.socket(id)
	for range 20 {
		r.writes.take(true)
		var want []string
		for n := range 30 {
			text := fmt.Sprintf("message %02d", n)
			want = append(want, text)
			p.toClient([]rp.TunnelID{first, second}[n*n/3%2], rp.SocketMessage{Data: []byte(text)})
		}
		for n := range 30 {
			if ws := []*websocket.Conn{one, two}[n*n/3%2]; r.text(ws) != want[n] {
				t.Fatalf("message %d isn't the next one", n)
			}
		}
		var got []string
		for _, b := range r.writes.take(false) {
			if i := strings.Index(b, "message "); i >= 0 {
				got = append(got, b[i:])
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("sent are %q", got)
		}
	}
}

// TestSlowClient: a client that doesn't read holds up no other actor's messages. Those of its own actor to other clients come
// when it reads, or when many wait. What it wasn't sent comes in order.
func TestSlowClient(t *testing.T) {
	r := newRig(t, engine.Options{MaxQueued: 1 << 30})
	p := r.connect("default", "k")
	a, b := r.actor("counter", "a"), r.actor("counter", "b")
	p.started(a)
	p.started(b)
	slow, slowID := p.socket(a)
	quick, quickID := p.socket(a)
	other, otherID := p.socket(b)
	say := func(id rp.TunnelID, text string) { p.toClient(id, rp.SocketMessage{Data: []byte(text)}) }
	large := strings.Repeat("x", 16<<20) // more than the sockets of this machine hold
	r.writes.take(true)
	say(slowID, large)
	say(quickID, "quick 1")
	say(otherID, "other")
	if got := r.text(other); got != "other" {
		t.Errorf("%q", got)
	}
	for _, b := range r.writes.take(false) {
		if strings.HasSuffix(b, "quick 1") {
			t.Error("a message has overtaken one that isn't sent")
		}
	}
	if got := r.text(slow); got != large {
		t.Errorf("%d bytes, not %d", len(got), len(large))
	}
	if got := r.text(quick); got != "quick 1" {
		t.Errorf("%q", got)
	}
	say(slowID, large)
	for n := range 200 {
		say(slowID, fmt.Sprint("slow ", n))
		say(quickID, fmt.Sprint("quick ", n))
	}
	for n := range 200 {
		if got := r.text(quick); got != fmt.Sprint("quick ", n) {
			t.Fatalf("%q, not message %d", got, n)
		}
	}
	if got := r.text(slow); got != large {
		t.Errorf("%d bytes, not %d", len(got), len(large))
	}
	for n := range 200 {
		if got := r.text(slow); got != fmt.Sprint("slow ", n) {
			t.Fatalf("%q, not message %d", got, n)
		}
	}
}
