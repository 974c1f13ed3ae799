package engine_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// TestNames: actors whose namespaces, types and keys look like those of others are others, and stay so.
func TestNames(t *testing.T) { inBubble(t, testNames) }

func testNames(t *testing.T, r *rig) {
	p := r.connect("default", "k")
	for _, name := range []string{"b", "b/counter", "../default", "a%2Fb", "@b", " ", "\x00", "b\n"} {
		b, err := json.Marshal(map[string]string{"name": name})
		must(t, err)
		r.want(http.StatusOK, "namespace_id", "POST", "/namespaces", string(b))
	}
	type place struct{ namespace, name, key string }
	find := func(at place) (id string) {
		b, err := json.Marshal(map[string]string{"name": at.name, "key": at.key, "runner_name_selector": "default"})
		must(t, err)
		_, text, _ := strings.Cut(r.want(http.StatusOK, "actor_id", "PUT", "/actors?namespace="+url.QueryEscape(at.namespace), string(b)), `"actor_id":"`)
		id, _, _ = strings.Cut(text, `"`)
		return id
	}
	places := []place{
		{"default", "counter", "k"}, {"default", "counter", "k/x"}, {"default", "counter", `k\/x`}, {"default", "counter", "../k"}, {"default", "counter", "é"},
		{"default", "counter", "e\u0301"}, {"default", "counter", `\-00112233445566778899aabbccddeeff`}, {"default", "counter/k", "x"}, {"default", "@b", "counter/k"},
		{"default", "@b/counter", "k"}, {"default", "b/counter", "k"}, {"default", "b%2Fcounter", "k"}, {"default", "..", "k"},
		{"b", "counter", "k"}, {"b", "counter", "k/x"}, {"b", "counter/k", "x"}, {"b/counter", "k", "x"}, {"@b", "counter", "k"}, {"a%2Fb", "counter", "k"},
		{"../default", "counter", "k"}, {" ", "counter", "k"}, {"\x00", "counter", "k"}, {"b\n", "counter", "k"},
	}
	ids := map[string]place{}
	for _, at := range places {
		id := find(at)
		if other, ok := ids[id]; ok {
			t.Errorf("%q and %q are one actor", at, other)
		}
		ids[id] = at
	}
	synctest.Wait()
	r.reopen()
	p = r.reconnect("default", "k", p)
	for _, at := range places {
		if id := find(at); ids[id] != at {
			t.Errorf("%q is the actor of %q", at, ids[id])
		}
	}
	for id, at := range ids {
		if at.namespace != "default" {
			if got, ok := p.keys(id, rp.KVGet{Keys: [][]byte{{4}}}).(rp.KVError); !ok || got.Message != "actor does not belong to runner" {
				t.Errorf("a runner of another namespace gets %+v of %q", got, at)
			}
		}
	}
	r.want(http.StatusBadRequest, "missing", "PUT", "/actors", `{"name":"","key":"k"}`)
}

// TestRandomRunners: whatever runners say at random that have none of its actors, another one has its own, which are answered.
func TestRandomRunners(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	p.put(id, "a", "1")
	good := pair{p: p}
	good.ws, good.tunnel = p.socket(id)
	for seed := range uint64(300) {
		h := hostile{rand.New(rand.NewPCG(seed, 1)), id, good.tunnel}
		q := r.program(fmt.Sprint("hostile", h.IntN(4)), rp.V5+rp.Version(h.IntN(3)))
		if h.IntN(10) > 0 {
			q.say(q.introduction([]string{"default", "other"}[h.IntN(2)]))
		}
		for range h.IntN(40) {
			b, err := rp.EngineBound.Append(nil, q.version, h.message())
			if err != nil {
				continue // its version lacks it
			}
			if h.IntN(3) == 0 {
				b[h.IntN(len(b))] = byte(h.Uint32())
			}
			if h.IntN(20) == 0 {
				b = b[:h.IntN(len(b))]
			}
			if q.ws.Write(t.Context(), websocket.MessageBinary, b) != nil {
				break // it is cut off
			}
		}
		_ = q.ws.CloseNow() // it may be cut off
		r.want(http.StatusOK, "POST /x y", "POST", "/gateway/"+id+"/x", "y")
		if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1" {
			t.Fatalf("after seed %d %q is stored", seed, got)
		}
		good.talk()
	}
	select {
	case <-p.ended:
		t.Error("the other runner is cut off")
	default:
	}
}

// A hostile runner says things about an actor and a tunnel of another one, and some that aren't there.
type hostile struct {
	*rand.Rand
	actor  string
	tunnel rp.TunnelID
}

// message returns one of them.
func (h *hostile) message() rp.ToEngine {
	at := rp.Checkpoint{Actor: []string{h.actor, "", "x", strings.Repeat("a", 30)}[h.IntN(4)], Generation: h.Uint32N(4), Index: h.Int64N(5) - 1}
	key := func() []byte { return make([]byte, h.IntN(3000)) }
	switch h.IntN(8) {
	case 0:
		return rp.Events{{Checkpoint: at, Body: rp.Running{}}, {Checkpoint: at, Body: rp.Stopped{Code: rp.StopCode(h.IntN(3))}}}
	case 1:
		return rp.Events{{Checkpoint: at, Body: rp.SetAlarm{At: rp.Some(h.Int64() - 1<<62)}}, {Checkpoint: at, Body: rp.Intent(h.IntN(2))}}
	case 2:
		return rp.AckCommands{at}
	case 3, 4:
		return rp.KVRequest{Actor: at.Actor, ID: h.Uint32(), Body: []rp.KVRequestBody{
			rp.KVPut{Pairs: []rp.KVPair{{Key: key(), Value: key()}}}, rp.KVDrop{}, rp.KVDeleteRange{Start: key(), End: key()}, rp.KVList{Query: rp.KVAll{}},
		}[h.IntN(4)]}
	case 5:
		return rp.Pong{At: h.Int64()}
	case 6:
		return rp.RunnerInit{Name: "default"}
	default:
		m := rp.FromActor{ID: rp.MessageID{Tunnel: h.tunnel, Index: uint16(h.IntN(9))}}
		if h.IntN(2) == 0 {
			m.ID.Tunnel.Request[h.IntN(4)] ^= byte(h.IntN(8))
		}
		m.Body = []rp.FromActorBody{
			rp.SocketMessage{Data: key()}, rp.ActorClose{Code: rp.Some(uint16(h.IntN(6000)))}, rp.SocketAck{Index: 9}, rp.SocketAccept{}, rp.ResponseAbort{},
			rp.ResponseStart{Status: uint16(h.IntN(1200)), Headers: []rp.Header{{Name: "x\r\ny", Value: "a\r\nb"}}, Body: key()}, rp.ResponseChunk{Data: key(), Finish: h.IntN(2) == 0},
		}[h.IntN(7)]
		return m
	}
}
