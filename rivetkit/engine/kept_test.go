package engine_test

import (
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// TestKeptBesideSocket: a message that was kept over a restart is given to its actor, though another actor's socket has got
// the number that the message's socket had in the life before.
func TestKeptBesideSocket(t *testing.T) {
	r := newRig(t, engine.Options{BrokenThreshold: time.Millisecond})
	p := r.connect("default", "k")
	y := r.actor("counter", "y")
	at, _ := p.started(y)
	ws := r.dial("/gateway/"+y+"/connect", "rivet")
	first := toActor[rp.SocketOpen](p)
	p.event(at, rp.Intent(rp.IntentSleep))
	p.toldToStop(y)
	must(t, p.ws.CloseNow())
	must(t, ws.Write(t.Context(), websocket.MessageText, []byte("precious")))
	eventually(t, "the message is stored", func() bool { return r.kept(y) == 1 })
	r.reopen()
	p = r.connect("default", "l")
	x := r.actor("counter", "x")
	p.started(x)
	r.dial("/gateway/"+x+"/connect", "rivet")
	if open := toActor[rp.SocketOpen](p); open.ID.Tunnel.Request != first.ID.Tunnel.Request {
		t.Fatalf("the sockets have the numbers %x and %x", first.ID.Tunnel.Request, open.ID.Tunnel.Request)
	}
	if m := toActor[rp.SocketMessage](p); m.ID.Tunnel != first.ID.Tunnel || string(m.Body.(rp.SocketMessage).Data) != "precious" {
		t.Errorf("%+v", m)
	}
}

// kept returns how many messages are stored for an actor.
func (r *rig) kept(id string) (n int) {
	r.Helper()
	s, err := actorstore.Open(r.Context(), r.kv, &actorstore.Options{ReadOnly: true})
	must(r, err)
	defer s.Close()
	aid, err := actorstore.ParseID(id)
	must(r, err)
	v, err := s.View(r.Context(), aid)
	must(r, err)
	defer v.Close()
	start, end := rivetstore.SocketRange()
	for e, err := range v.List(r.Context(), actorstore.ListOptions{Start: start, End: end}) {
		must(r, err)
		_, number, err := rivetstore.ParseMessageKey(e.Key)
		must(r, err)
		if number > 0 { // else it says that the socket is open
			n++
		}
	}
	return n
}
