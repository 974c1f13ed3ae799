package engine_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// TestRefused: a request that an actor refuses because it stops is sent to its next start, and any other error is the client's.
func TestRefused(t *testing.T) {
	for name, body := range map[string]string{
		"bare": "\x03\x00\x05actor\x08stopping\x0eActor stopping\x00",
		"cbor": "\xa4egroupeactordcodehstoppinggmessagexaActor",
		"json": `{"group":"actor","code":"stopping","message":"Actor stopping"}`,
		"own":  `{"group":"user","code":"stopping","message":"the actor"}`,
	} {
		r := newRig(t, engine.Options{})
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		at, _ := p.started(id)
		p.mu.Lock()
		p.reply = func(m rp.ToActor, b rp.RequestStart) {
			if generation, _ := p.generation(id); generation > 1 {
				p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 200, Body: []byte("the next start")})
				return
			}
			p.event(at, rp.Intent(rp.IntentSleep))
			p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 400, Body: []byte(body)})
		}
		p.mu.Unlock()
		if name == "own" {
			r.want(400, body, "POST", "/gateway/"+id+"/action/x", "x")
		} else {
			r.want(200, "the next start", "POST", "/gateway/"+id+"/action/x", "x")
		}
	}
}
