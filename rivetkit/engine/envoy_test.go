package engine_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// TestEnvoyArrives: a program of RivetKit 2.3 asks for what it needs in its order, is told how to behave unasked, and its actors' first command has the number 1.
func TestEnvoyArrives(t *testing.T) {
	for _, v := range []rp.Version{rp.Envoy6, rp.Envoy8} {
		t.Run(v.String(), func(t *testing.T) {
			r := newRig(t, engine.Options{Version: "1.2"})
			r.want(200, `"runtime":"engine"`, "GET", "/health", "")
			var places struct {
				Datacenters []struct{ Name, URL string }
			}
			must(t, json.Unmarshal([]byte(r.want(200, "", "GET", "/datacenters?namespace=default", "")), &places))
			if len(places.Datacenters) != 1 || places.Datacenters[0].Name != "default" || places.Datacenters[0].URL != r.url+"/" {
				t.Errorf("%+v", places)
			}
			r.want(200, `"envoys":[]`, "GET", "/envoys?namespace=default&name=default", "")
			r.want(200, `{"endpoint_config_changed":false}`, "PUT", "/runner-configs/default?namespace=default", `{"datacenters":{"default":{"drain_on_version_upgrade":true,"normal":{}}}}`)
			r.want(200, `"envoy_protocol_version":8`, "GET", "/metadata", "")
			p := r.program("k", v)
			hello := heardOf(p, func(rp.EngineInit) bool { return true })
			if want := (rp.EngineInit{LostThreshold: 15_000, StopThreshold: 30_000, MaxResponse: 20 << 20}); hello != want {
				t.Errorf("%+v, not %+v", hello, want)
			}
			id := r.actor("counter", "a")
			at, start := p.started(id)
			if at.Generation != 1 || at.Index != 1 || start.Name != "counter" || start.Key != rp.Some("a") || start.Preloaded.Set {
				t.Errorf("%+v %+v", at, start)
			}
			var list struct {
				Envoys []struct {
					Key   string `json:"envoy_key"`
					Pool  string `json:"pool_name"`
					Slots int
				}
			}
			must(t, json.Unmarshal([]byte(r.want(200, "", "GET", "/envoys?namespace=default&name=default", "")), &list))
			if len(list.Envoys) != 1 || list.Envoys[0].Key != "k" || list.Envoys[0].Pool != "default" || list.Envoys[0].Slots != 1 {
				t.Errorf("%+v", list)
			}
			r.want(200, `"envoys":[]`, "GET", "/envoys?namespace=default&name=services", "")
			p.say(rp.RunnerInit{ActorNames: []rp.ActorName{{Name: "counter", Metadata: "{}"}}})
			eventually(t, "its types are known", func() bool {
				_, text := r.call("GET", "/metadata", "")
				return strings.Contains(text, `"counter"`)
			})
			r.want(200, "POST /action/x?y=z body", "POST", "/gateway/"+id+"/action/x?y=z", "body")
			if req := toActor[rp.RequestStart](p).Body.(rp.RequestStart); req.StreamResponse || req.Generation.Set || req.Stream {
				t.Errorf("%+v", req)
			}
			if got, ok := p.keys(id, rp.KVList{Query: rp.KVAll{}, Limit: rp.Some(uint64(1))}).(rp.KVListed); !ok || len(got.Entries) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestEnvoyRefused: a program that speaks another version is told so, and so is the log.
func TestEnvoyRefused(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.close()
	var log bytes.Buffer
	r.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r.start()
	for path, want := range map[string]string{
		"/envoys/connect?protocol_version=5&envoy_key=k&pool_name=default&namespace=default":   "2.3.5 to 2.3.19",
		"/envoys/connect?protocol_version=7&envoy_key=k&pool_name=default&namespace=default":   "version isn't 6 or 8",
		"/envoys/connect?protocol_version=8&envoy_key=k&namespace=default":                     "pool is missing",
		"/envoys/connect?protocol_version=8&pool_name=default&namespace=default":               "key is missing",
		"/envoys/connect?protocol_version=8&envoy_key=k&pool_name=default&namespace=nowhere":   "namespace",
		"/runners/connect?protocol_version=8&runner_key=k&pool_name=default&namespace=default": "/envoys/connect",
	} {
		r.want(http.StatusBadRequest, want, "GET", path, "")
	}
	if got := strings.Count(log.String(), "a program is refused"); got != 4 || !strings.Contains(log.String(), "version=7") {
		t.Errorf("%d refusals in the log:\n%s", got, &log)
	}
}

// TestEnvoyUndecodable: a message that isn't of the version ends the connection, with a line in the log.
func TestEnvoyUndecodable(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.envoy("k")
	must(t, p.ws.Write(t.Context(), websocket.MessageBinary, []byte{99, 1, 2}))
	<-p.ended
	eventually(t, "it is away", func() bool {
		_, text := r.call("GET", "/envoys?namespace=default&name=default", "")
		return strings.Contains(text, `"envoys":[]`)
	})
}

// TestStopReasons: an actor is told why it stops, and what becomes of it then is what the reason says.
func TestStopReasons(t *testing.T) {
	t.Run("sleep", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			f.sleep()
			f.again(f.p).has("one", 1)
		})
	})
	t.Run("stop", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			f.p.event(f.at, rp.Intent(rp.IntentStop))
			f.p.stops(f.at, rp.StopAsWished)
			f.gone()
		})
	})
	t.Run("destroy", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			r.want(200, "{}", "DELETE", "/actors/"+f.at.Actor, "")
			f.p.stops(f.at, rp.StopToDestroy)
			f.gone()
		})
	})
	t.Run("stopping", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			p := r.envoy("k")
			f := p.farOf("a")
			must(t, f.commit(1, 1, "one"))
			p.say(rp.Stopping{})
			p.stops(f.at, rp.StopGoingAway)
			r.want(200, `"envoys":[]`, "GET", "/envoys?namespace=default&name=default", "")
			f.again(r.envoy("l")).has("one", 1)
		})
	})
	t.Run("shutdown", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			f := r.envoy("k").farOf("a")
			must(t, f.commit(1, 1, "one"))
			must(t, r.engine.Shutdown(t.Context()))
			f.p.stops(f.at, rp.StopGoingAway)
			r.stop()
			r.start()
			f.again(r.reconnect("", "k", f.p)).has("one", 1)
		})
	})
	t.Run("start takes too long", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.close()
			r.opts.StartThreshold = 5 * time.Second
			r.start()
			p := r.envoy("k")
			p.holds(true)
			f := p.farOf("a")
			pass(6 * time.Second)
			p.stops(f.at, rp.StopLost)
		})
	})
}

// TestStoppedUnasked: an actor that has ended by itself without a wish is destroyed, and one that has ended by an error, or with its program, sleeps.
func TestStoppedUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(f *far)
		gone bool
	}{
		"well":     {func(f *far) { f.p.event(f.at, rp.Stopped{}) }, true},
		"by error": {func(f *far) { f.p.event(f.at, rp.Stopped{Code: 1, Message: rp.Some("boom")}) }, false},
		"lost":     {func(f *far) { must(f.p, f.p.ws.CloseNow()); pass(16 * time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				f := r.envoy("k").farOf("a")
				must(t, f.commit(1, 1, "one"))
				c.end(f)
				synctest.Wait()
				if c.gone {
					f.gone()
					return
				}
				if name == "lost" {
					f.p = r.envoy("l")
				}
				f.again(f.p).has("one", 1)
			})
		})
	}
}

// TestStoppedUnknown: an actor that stops because the engine before wants it to isn't destroyed, though this engine doesn't know that.
func TestStoppedUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(1, 1, "one"))
		p.holds(true) // it takes its time
		f.sleep()
		heardOf(p, func(a rp.AckEvents) bool { return a[0].Actor == f.at.Actor && a[0].Index == 1 })
		r.close()
		<-p.ended
		p.mu.Lock()
		p.unacked = nil
		p.mu.Unlock()
		r.start()
		p = r.reconnect("", "k", p)
		p.event(f.at, rp.Stopped{})
		synctest.Wait()
		f.again(p).has("one", 1)
	})
}

// TestEnvoyHibernates: a socket outlives the sleep of its actor: its messages keep their numbers, and wait until the actor has opened the socket again.
func TestEnvoyHibernates(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		ws := r.dial("/gateway/"+f.at.Actor+"/connect", "rivet")
		tunnel := toActor[rp.SocketOpen](p).ID.Tunnel
		say := func(text string) {
			must(t, ws.Write(t.Context(), websocket.MessageText, []byte(text)))
			synctest.Wait()
		}
		comes := func(text string, index uint16) {
			t.Helper()
			if m := toActor[rp.SocketMessage](p); string(m.Body.(rp.SocketMessage).Data) != text || m.ID != (rp.MessageID{Tunnel: tunnel, Index: index}) {
				t.Errorf("%+v, not %s %d", m, text, index)
			}
		}
		nothing := func() {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, m := range p.heard {
				if m, ok := m.(rp.ToActor); ok {
					t.Errorf("%+v", m)
				}
			}
		}
		say("one")
		comes("one", 1)
		p.toClient(tunnel, rp.SocketAck{Index: 1})
		say("two")
		comes("two", 2) // it isn't acknowledged
		p.holds(true)
		f.sleep()
		p.event(f.at, rp.Stopped{})
		at, start := p.started(f.at.Actor) // by the message
		if len(start.Hibernating) != 1 || start.Hibernating[0] != tunnel || at.Generation != 2 {
			t.Errorf("%+v %+v", at, start)
		}
		nothing()
		say("three")
		p.mu.Lock()
		p.has[at.Actor], p.indices[tunnel] = at.Generation, 0
		p.mu.Unlock()
		p.event(at, rp.Running{})
		nothing()
		p.toClient(tunnel, rp.SocketAccept{CanHibernate: true})
		comes("two", 2)
		comes("three", 3)
		p.toClient(tunnel, rp.SocketMessage{Data: []byte("answer")})
		if got := p.text(ws); got != "answer" {
			t.Errorf("%q", got)
		}
		p.toClient(tunnel, rp.SocketAck{Index: 3})
		p.holds(false)
		f.at = at
		f.sleep()
		nothing()
		p.notStarted(f.at.Actor)
		say("four")
		at, _ = p.started(f.at.Actor)
		comes("four", 4)
		p.toClient(tunnel, rp.SocketAck{Index: 4})
		// A client that leaves while the actor sleeps isn't named at its next start.
		f.at = at
		f.sleep()
		must(t, ws.Close(websocket.StatusNormalClosure, ""))
		synctest.Wait()
		r.want(200, "GET /x", "GET", "/gateway/"+f.at.Actor+"/x", "")
		if _, start := p.started(f.at.Actor); len(start.Hibernating) != 0 {
			t.Errorf("%+v", start)
		}
	})
}

// TestEnvoyTakenOver: an envoy that comes back to the engine that follows has its actors still, in their generation and with their head, and says again what wasn't acknowledged.
func TestEnvoyTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(2, 1, "one", "two"))
		for range 2 {
			r.reopen()
			pass(10 * time.Second)
			p = r.reconnect("", "k", p)
			f.p = p
			f.has("one two", 1, 2)
			must(t, f.commit(2, 1, "one"))
			r.want(200, "GET /x", "GET", "/gateway/"+f.at.Actor+"/x", "")
			p.notStarted(f.at.Actor)
		}
		r.close()
		<-p.ended
		p.mu.Lock()
		p.unacked = append(p.unacked, rp.Event{Checkpoint: rp.Checkpoint{Actor: f.at.Actor, Generation: 1, Index: 1}, Body: rp.Intent(rp.IntentSleep)})
		p.events[f.at.Actor+"/1"] = 2
		p.mu.Unlock()
		r.start()
		p = r.reconnect("", "k", p)
		p.stops(f.at, rp.StopToSleep)
		f.p, f.at.Generation, f.head = p, 2, 0
		p.started(f.at.Actor) // its alarm isn't known
		f.has("one two", 1, 2)
	})
}

// TestEnvoyTooLate: an envoy that comes back when it was given up has stopped its actors, which it says: they are started on it at once. One that doesn't say so gets its time to stop them.
func TestEnvoyTooLate(t *testing.T) {
	for name, says := range map[string]bool{"it says so": true, "it doesn't": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.envoy("k")
				f := p.farOf("a")
				must(t, f.commit(1, 1, "one"))
				must(t, p.ws.CloseNow())
				<-p.ended
				pass(20 * time.Second)
				old := *f
				p.mu.Lock()
				p.has = map[string]uint32{}
				if p.unacked = nil; says {
					p.unacked = []rp.Event{{Checkpoint: rp.Checkpoint{Actor: f.at.Actor, Generation: 1, Index: 1}, Body: rp.Stopped{Code: 1, Message: rp.Some("actor lost due to timeout")}}}
				}
				p.mu.Unlock()
				p = r.reconnect("", "k", p)
				if !says {
					old.p = p
					refused(t, old.commit(1, 1, "x"), "actor does not exist")
					p.event(old.at, rp.Intent(rp.IntentSleep))
					p.stops(old.at, rp.StopLost) // it is told so when it speaks of the actor
					pass(31 * time.Second)
				}
				f.again(p).has("one", 1)
			})
		})
	}
}

// TestCommitLost: a commit whose answer is lost with the connection isn't made twice. The program, which takes it for one that wasn't made, is told that the database has another head; its actor ends
// then, and has the truth when it starts.
func TestCommitLost(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		must(t, f.commit(2, 1, "one", "two"))
		p.mu.Lock()
		p.deaf = true // the answer doesn't come
		p.mu.Unlock()
		p.say(rp.Commit{ID: 100, Actor: f.at.Actor, Size: 3, Fence: f.fence(), Pages: []rp.Page{page(1, "lost"), page(3, "three")}})
		synctest.Wait()
		_ = p.ws.CloseNow() // its reader has ended
		p = r.reconnect("", "k", p)
		f.p = p
		refused(t, f.commit(2, 2, "x"), "head_fence_mismatch")
		p.event(f.at, rp.Stopped{Code: 1})
		synctest.Wait()
		f = f.again(p)
		f.has("lost two three", 1, 2, 3)
		must(t, f.commit(3, 2, "2"))
	})
}
