package engine_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// storedUsage returns what the store says that an actor has used.
func (r *rig) storedUsage(id string) (u actorstore.Usage) {
	r.Helper()
	r.view(id, func(v *actorstore.View) { u = v.Info().Usage })
	return u
}

// TestUsage: what an actor is used for is counted while it is awake, and stored when it sleeps; of one that is awake for long, with a turn.
func TestUsage(t *testing.T) {
	start := time.Now()
	var passed atomic.Int64
	clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	r := newRig(t, engine.Options{Clock: clock, StartThreshold: time.Hour, StopThreshold: time.Hour})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	at, _ := p.started(id)
	p.put(id, "a", "1")
	r.want(200, "GET /x ", "GET", "/gateway/"+id+"/x", "")
	p.mu.Lock()
	p.reply = func(m rp.ToActor, _ rp.RequestStart) { p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 503}) }
	p.mu.Unlock()
	r.want(503, "", "GET", "/gateway/"+id+"/x", "")
	p.mu.Lock()
	p.reply = nil
	p.mu.Unlock()
	ws := r.dial("/gateway/"+id+"/websocket/x", "rivet")
	toActor[rp.SocketOpen](p)
	must(t, ws.Write(t.Context(), websocket.MessageText, []byte("hi")))
	toActor[rp.SocketMessage](p)
	passed.Store(int64(10 * time.Second))
	want := func(what string, u actorstore.Usage, turns int64, awake time.Duration, failures ...string) {
		t.Helper()
		var got []string
		for _, f := range u.Failures {
			got = append(got, fmt.Sprint(f.Code, " ", f.Place, " ", f.Count))
		}
		slices.Sort(got)
		if u.Turns != turns || u.Awake != awake || u.Written == 0 || !slices.Equal(got, failures) {
			t.Errorf("%s: %+v, want %d turns, %s, %q", what, u, turns, awake, failures)
		}
	}
	used := r.engine.Usage()
	if len(used) != 1 || used[0].ID.String() != id {
		t.Fatalf("awake are %+v", used)
	}
	want("awake", used[0].Usage, 4, 10*time.Second, "http_503 request 1")
	if u := r.storedUsage(id); !u.IsZero() {
		t.Errorf("stored is %+v", u)
	}

	p.event(at, rp.Intent(rp.IntentSleep))
	p.toldToStop(id)
	eventually(t, "the sleep is stored", func() bool { u := r.storedUsage(id); return !u.IsZero() })
	want("asleep", r.storedUsage(id), 4, 10*time.Second, "http_503 request 1")
	if used := r.engine.Usage(); len(used) != 0 {
		t.Errorf("awake are %+v", used)
	}

	passed.Store(int64(time.Hour)) // asleep
	r.want(200, "GET /x ", "GET", "/gateway/"+id+"/x", "")
	at, _ = p.started(id)
	passed.Add(int64(6 * time.Minute))
	r.want(200, "GET /x ", "GET", "/gateway/"+id+"/x", "")
	eventually(t, "what an actor that is awake for long uses is stored", func() bool { return r.storedUsage(id).Turns == 6 })
	want("awake for long", r.storedUsage(id), 6, 6*time.Minute+10*time.Second, "http_503 request 1")

	passed.Add(int64(time.Second))
	p.event(at, rp.Stopped{Code: 1, Message: rp.Some("boom")})
	eventually(t, "the end is stored", func() bool { return len(r.storedUsage(id).Failures) == 2 })
	want("ended by an error", r.storedUsage(id), 6, 6*time.Minute+11*time.Second, "ended actor 1", "http_503 request 1")
}
