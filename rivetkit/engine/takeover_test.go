package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/kv/memkv"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// inBubble calls run with a rig without a network, in a bubble of testing/synctest.
func inBubble(t *testing.T, run func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{TB: t, kv: memkv.New(), opts: quiet(), piped: true}
		r.start()
		t.Cleanup(func() {
			r.close()
			synctest.Wait()
			must(t, r.kv.Close())
		})
		run(t, r)
	})
}

// notStarted fails the test if the program was told to start an actor.
func (p *program) notStarted(id string) {
	p.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.heard {
		if c, ok := m.(rp.Commands); ok && c[0].Checkpoint.Actor == id {
			if _, ok := c[0].Body.(rp.StartActor); ok {
				p.Errorf("%s is started: %+v", id, c[0].Checkpoint)
			}
		}
	}
}

// TestTakeOver: an engine that is opened takes over the actors of the engine before, when their runner comes back: they run on in
// their generation, and their keys are accepted.
func TestTakeOver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		at, _ := p.started(id)
		p.put(id, "a", "1")
		for range 2 {
			r.reopen()
			if p = r.reconnect("default", "k", p); p.id == "" {
				t.Fatal("it has no id")
			}
			p.put(id, "b", "2")
			r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
			p.notStarted(id)
		}
		if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1 b=2" {
			t.Errorf("%q", got)
		}
		// Its alarm isn't known: when it sleeps it is started once more.
		p.event(at, rp.Intent(rp.IntentSleep))
		p.toldToStop(id)
		if at, _ = p.started(id); at.Generation != 2 {
			t.Errorf("%+v", at)
		}
	})
}

// TestTakeOverTooLate: a runner that comes back when it was given up gets another id, for which it stops what it has. Its actors are
// started elsewhere meanwhile, and on itself when it has had its time to stop them.
func TestTakeOverTooLate(t *testing.T) {
	for name, restart := range map[string]bool{"lost": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				p.started(id)
				if restart {
					r.reopen()
				} else {
					must(t, p.ws.CloseNow())
				}
				pass(16 * time.Second)
				old := p.id
				p.mu.Lock()
				p.has = map[string]uint32{} // its own time has passed
				p.mu.Unlock()
				p = r.reconnect("default", "k", p)
				if p.id == old {
					t.Errorf("it is %s again", p.id)
				}
				pass(29 * time.Second)
				p.notStarted(id)
				pass(10 * time.Second)
				r.want(200, "GET", "GET", "/gateway/"+id+"/", "")
				if at, _ := p.started(id); at.Generation != 2 {
					t.Errorf("%+v", at)
				}
			})
		})
	}
}

// TestSuccessor: the actors of a program whose connection broke off wait less for it if another runner is there. Requests wait
// with them. If the program lives it is told by another id that it has lost them.
func TestSuccessor(t *testing.T) {
	for name, restart := range map[string]bool{"program killed": false, "both killed": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				p.started(id)
				must(t, p.ws.CloseNow())
				synctest.Wait()
				if restart {
					r.reopen()
				}
				q := r.connect("default", "l")
				begun := time.Now()
				r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
				if d := time.Since(begun); d > 6*time.Second {
					t.Errorf("the request has waited for %v", d)
				}
				if at, _ := q.started(id); at.Generation != 2 {
					t.Errorf("%+v", at)
				}
				old := p.id
				if p = r.reconnect("default", "k", p); p.id == old {
					t.Errorf("it is %s again", old)
				}
				if got, ok := p.keys(id, rp.KVList{Query: rp.KVAll{}}).(rp.KVError); !ok {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// TestSameKey: a program that was started with the key of one that was killed has none of its actors. They are found missing, and
// started: those that had just been started when they have had their time to stop.
func TestSameKey(t *testing.T) {
	for name, c := range map[string]struct{ ran, within time.Duration }{
		"long since": {2 * time.Minute, 6 * time.Second},
		"just now":   {0, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				p.started(id)
				pass(c.ran)
				must(t, p.ws.CloseNow())
				<-p.ended
				q := r.connect("default", "k")
				pass(c.within)
				if at, _ := q.started(id); at.Generation != 2 {
					t.Errorf("%+v", at)
				}
				r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
			})
		})
	}
}

// TestTakeOverSockets: an actor that is taken over is told that the clients have gone which the engine before had, and so is one whose
// runner comes back to the same engine.
func TestTakeOverSockets(t *testing.T) {
	for name, restart := range map[string]bool{"lost": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				p.started(id)
				ids := map[rp.TunnelID]bool{}
				for _, path := range []string{"/connect", "/websocket/x"} {
					ws := r.dial("/gateway/"+id+path, "rivet")
					defer func() { _ = ws.CloseNow() }()
					if open := toActor[rp.SocketOpen](p); restart || path != "/connect" { // else it outlives this
						ids[open.ID.Tunnel] = true
					}
				}
				synctest.Wait()
				if restart {
					r.reopen()
				} else {
					must(t, p.ws.CloseNow())
				}
				p = r.reconnect("default", "k", p)
				for range ids {
					m := toActor[rp.ClientClose](p)
					if !ids[m.ID.Tunnel] {
						t.Errorf("%+v", m)
					}
					delete(ids, m.ID.Tunnel)
				}
			})
		})
	}
}

// TestShutdown: an engine that is shut down has its actors sleep first, and the next one starts those that are wanted.
func TestShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		at, _ := p.started(id)
		soon := time.Now().Add(time.Hour)
		p.event(at, rp.SetAlarm{At: rp.Some(soon.UnixMilli())})
		ws := r.dial("/gateway/"+id+"/connect", "rivet")
		toActor[rp.SocketOpen](p)
		must(t, r.engine.Shutdown(t.Context()))
		p.toldToStop(id)
		if _, ok := p.generation(id); ok {
			t.Error("it runs on")
		}
		closed(t, ws)
		r.stop()
		r.start()
		p = r.reconnect("default", "k", p)
		pass(time.Minute)
		p.notStarted(id)
		r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
		if at, start := p.started(id); at.Generation != 2 || len(start.Hibernating) != 0 {
			t.Errorf("%+v %+v", at, start)
		}
	})
}

// TestDoomed: a DELETE that was answered is finished after a restart, whether the runner comes back or not; another actor may have
// the key then, and waits for that.
func TestDoomed(t *testing.T) {
	for name, back := range map[string]bool{"runner comes back": true, "another runner comes": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				p.started(id)
				p.put(id, "a", "1")
				p.mu.Lock()
				p.hold = true // it stops nothing
				p.mu.Unlock()
				r.want(200, "{}", "DELETE", "/actors/"+id, "")
				r.want(400, "not_found", "GET", "/gateway/"+id+"/x", "")
				r.reopen()
				r.want(200, `"actors":[]`, "GET", "/actors?actor_ids="+id, "")
				if back {
					p = r.reconnect("default", "k", p)
				} else {
					p = r.connect("default", "l")
				}
				next := r.actor("counter", "a")
				if next == id {
					t.Errorf("it is %s again", id)
				}
				p.started(next)
				if got := p.list(next, rp.KVList{Query: rp.KVAll{}}); got != "" {
					t.Errorf("it has %q", got)
				}
				p.notStarted(id)
				if _, ok := p.generation(id); ok {
					t.Error("the runner has it still")
				}
			})
		})
	}
}

// TestCrashKeeps: what a client has sent that has gone is given to the next start of the actor if the runner was lost, and isn't if
// the actor has ended by itself.
func TestCrashKeeps(t *testing.T) {
	for name, crash := range map[string]bool{"crash": true, "sleep": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				at, _ := p.started(id)
				ws := r.dial("/gateway/"+id+"/connect", "rivet")
				toActor[rp.SocketOpen](p)
				must(t, ws.Write(t.Context(), websocket.MessageText, []byte("precious")))
				toActor[rp.SocketMessage](p)
				must(t, ws.Close(websocket.StatusNormalClosure, ""))
				synctest.Wait()
				if !crash {
					p.event(at, rp.Intent(rp.IntentSleep))
					p.toldToStop(id)
					pass(time.Second)
					r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
					p.started(id)
					if r.close(); r.kept(id) != 0 {
						t.Error("it is still kept")
					}
					r.start()
					return
				}
				must(t, p.ws.CloseNow())
				q := r.connect("default", "l")
				q.started(id)
				if m := toActor[rp.SocketMessage](q); string(m.Body.(rp.SocketMessage).Data) != "precious" {
					t.Errorf("%+v", m)
				}
			})
		})
	}
}
