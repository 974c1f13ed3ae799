package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

func errorsAs(err error, target any) bool { return errors.As(err, target) }

// TestRequests: an actor is started when it is made, and requests reach it.
func TestRequests(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a/b")
	at, start := p.started(id)
	if start.Name != "counter" || start.Key != rp.Some("a/b") || at.Generation != 1 || at.Index != 0 {
		t.Errorf("%+v %+v", at, start)
	}
	if again := r.actor("counter", "a/b"); again != id {
		t.Errorf("it is %s the second time", again)
	}
	r.want(200, "POST /x/y?a=%20b&c body", "POST", "/gateway/"+id+"/x/y?a=%20b&c", "body")
	r.want(200, "GET / ", "GET", "/gateway/"+id+"@token", "")
	r.want(200, "GET /z?q=1 ", "GET", "/gateway/counter/z?rvt-method=get&q=1&rvt-key=a,b&rvt-namespace=default", "")
	r.want(400, "not_found", "GET", "/gateway/counter/z?rvt-method=get&rvt-key=none", "")
	r.want(200, "GET /new ", "GET", "/gateway/counter/new?rvt-method=getOrCreate&rvt-key=x", "")
	r.want(400, "duplicate_key", "POST", "/actors", `{"name":"counter","key":"a/b"}`)
	r.want(200, `"key":null`, "POST", "/actors", `{"name":"counter"}`)
	r.want(200, id, "GET", "/actors?name=counter&key=a/b", "")
	r.want(200, `"actors":[]`, "GET", "/actors?name=counter&key=none", "")
	r.want(200, id, "GET", "/actors?name=counter", "")
	r.want(200, id, "GET", "/actors?actor_ids=none,"+id, "")
	r.want(400, "namespace", "GET", "/actors?name=counter&namespace=other", "")
	r.want(404, "not_found", "GET", "/gateway//x", "")
	r.want(400, "UTF-8", "GET", "/gateway/"+id+"/x?q=\xff", "")
	r.want(400, "UTF-8", "GET", "/gateway/counter/x?rvt-method=getOrCreate&rvt-key=%ff", "")
	r.want(400, "UTF-8", "GET", "/gateway/%ff/x?rvt-method=getOrCreate", "")
	r.want(404, "not_found", "GET", "/none", "")
}

// TestKeys: a runner reads and writes keys of its actors, within the limits, and none of the engine's.
func TestKeys(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	p.put(id, "a", "1", "b", "2", "c", "3", "i", "4")
	for _, c := range []struct {
		q    rp.KVList
		want string
	}{
		{rp.KVList{Query: rp.KVAll{}}, "a=1 b=2 c=3 i=4"},
		{rp.KVList{Query: rp.KVAll{}, Reverse: rp.Some(true), Limit: rp.Some(uint64(2))}, "i=4 c=3"},
		{rp.KVList{Query: rp.KVRange{Start: []byte("a"), End: []byte("c")}}, "a=1 b=2 c=3"},
		{rp.KVList{Query: rp.KVRange{Start: []byte("a"), End: []byte("c"), Exclusive: true}}, "a=1 b=2"},
		{rp.KVList{Query: rp.KVPrefix{Prefix: []byte("b")}}, "b=2"},
		{rp.KVList{Query: rp.KVAll{}, Limit: rp.Some(uint64(0))}, ""},
	} {
		if got := p.list(id, c.q); got != c.want {
			t.Errorf("%+v: %q, not %q", c.q, got, c.want)
		}
	}
	got := p.keys(id, rp.KVGet{Keys: [][]byte{[]byte("c"), []byte("none"), []byte("a")}}).(rp.KVGot)
	if len(got.Entries) != 2 || string(got.Entries[0].Value) != "3" || string(got.Entries[1].Value) != "1" {
		t.Errorf("%+v", got)
	}
	long := strings.Repeat("x", 2047)
	for name, q := range map[string]rp.KVRequestBody{
		"128 keys":  rp.KVGet{Keys: make([][]byte, 129)},
		"key is":    rp.KVDelete{Keys: [][]byte{[]byte(long)}},
		"128 KiB":   rp.KVPut{Pairs: []rp.KVPair{{Key: []byte("a"), Value: make([]byte, 128<<10+1)}}},
		"976 KiB":   rp.KVPut{Pairs: many(10, 100<<10)},
		"reserved":  rp.KVPut{Pairs: []rp.KVPair{{Key: rivetstore.RecordKey()}}},
		"too long":  rp.KVList{Query: rp.KVPrefix{Prefix: []byte(long)}},
		"reserved ": rp.KVGet{Keys: [][]byte{rivetstore.RecordKey()}},
	} {
		if got, ok := p.keys(id, q).(rp.KVError); !ok || !strings.Contains(got.Message, strings.TrimSpace(name)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1 b=2 c=3 i=4" {
		t.Errorf("what was refused has left %q", got)
	}
	r.want(200, `"value":"MQ=="`, "GET", "/actors/"+id+"/kv/keys/YQ==", "")
	p.keys(id, rp.KVDeleteRange{Start: []byte("b"), End: []byte("c")})
	p.keys(id, rp.KVDelete{Keys: [][]byte{[]byte("a")}})
	if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "c=3 i=4" {
		t.Errorf("%q is left", got)
	}
	p.keys(id, rp.KVDrop{})
	if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "" {
		t.Errorf("%q is left", got)
	}
	r.want(200, id, "GET", "/actors?name=counter&key=a", "") // its record is still there
}

// TestNoSpace: a runner is told why what it stores is refused, can read meanwhile, and goes on when there is room.
func TestNoSpace(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.close()
	faults := faultkv.New(r.kv)
	r.kv = faults
	r.start()
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	p.put(id, "a", "1")
	faults.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(errkind.ErrNoSpace), Times: faultkv.Forever})
	for range 2 {
		if got, ok := p.keys(id, rp.KVPut{Pairs: many(1, 1)}).(rp.KVError); !ok || !strings.Contains(got.Message, "no room") {
			t.Errorf("%+v", got)
		}
		if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1" {
			t.Errorf("%q is stored", got)
		}
	}
	faults.Heal()
	p.put(id, "b", "2")
	if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1 b=2" {
		t.Errorf("%q is stored", got)
	}
}

func many(n, size int) (pairs []rp.KVPair) {
	for i := range n {
		pairs = append(pairs, rp.KVPair{Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, size)})
	}
	return pairs
}

// TestSleep: an actor that sleeps is started by a request, with the next generation and what it has stored.
func TestSleep(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	at, _ := p.started(id)
	p.put(id, "a", "1")
	p.event(at, rp.Intent(rp.IntentSleep))
	if stop := p.toldToStop(id); stop.Generation != 1 || stop.Index != 1 {
		t.Errorf("%+v", stop)
	}
	eventually(t, "sleep", func() bool {
		_, text := r.call("GET", "/actors?actor_ids="+id, "")
		return strings.Contains(text, `"connectable_ts":null`) && !strings.Contains(text, `"sleep_ts":null`)
	})
	if got, ok := p.keys(id, rp.KVGet{Keys: [][]byte{[]byte("a")}}).(rp.KVError); !ok || got.Message != "actor does not belong to runner" {
		t.Errorf("%+v", got)
	}
	r.want(200, "GET / ", "GET", "/gateway/"+id+"/", "")
	if at, _ := p.started(id); at.Generation != 2 {
		t.Errorf("%+v", at)
	}
	if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1" {
		t.Errorf("%q", got)
	}
}

// TestAlarm: an actor that sleeps is started when its time has come, also after the engine has ended; one
// whose alarm was taken back isn't.
func TestAlarm(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) { // no alarm goes off before its actor sleeps, however slow the machine is
		p := r.connect("default", "k")
		sleep := func(key string, alarms ...int64) string {
			id := r.actor("counter", key)
			at, _ := p.started(id)
			for _, ms := range alarms {
				e := rp.SetAlarm{}
				if ms != 0 {
					e.At = rp.Some(ms)
				}
				p.event(at, e)
			}
			p.event(at, rp.Intent(rp.IntentSleep))
			p.toldToStop(id)
			eventually(t, "sleep", func() bool {
				_, text := r.call("GET", "/actors?actor_ids="+id, "")
				return !strings.Contains(text, `"sleep_ts":null`)
			})
			return id
		}
		soon := time.Now().Add(200 * time.Millisecond).UnixMilli()
		never := sleep("never", soon, 0)
		id := sleep("a", soon+1e6, soon)
		if at, _ := p.started(id); at.Generation != 2 {
			t.Errorf("%+v", at)
		}
		later := sleep("later", time.Now().Add(500*time.Millisecond).UnixMilli())
		r.reopen()
		q := r.connect("default", "k")
		q.started(later)
		for _, p := range []*program{p, q} {
			p.notStarted(never)
		}
	})
}

// TestDestroy: an actor whose intent is to stop is gone with everything, and another one may have its key.
func TestDestroy(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	at, _ := p.started(id)
	p.put(id, "a", "1")
	p.event(at, rp.SetAlarm{At: rp.Some(time.Now().Add(time.Hour).UnixMilli())})
	p.event(at, rp.Intent(rp.IntentStop))
	p.toldToStop(id)
	eventually(t, "the end", func() bool {
		_, text := r.call("GET", "/actors?actor_ids="+id, "")
		return strings.Contains(text, `"actors":[]`)
	})
	r.want(400, "not_found", "GET", "/gateway/"+id+"/", "")
	eventually(t, "its keys are gone", func() bool {
		s, err := actorstore.Open(t.Context(), r.kv, &actorstore.Options{ReadOnly: true})
		must(t, err)
		for w, err := range s.Wakes(t.Context(), time.Now().Add(24*time.Hour), false) {
			must(t, err)
			t.Logf("%+v", w)
			return false
		}
		n := 0
		for _, err := range s.IDs(t.Context()) {
			must(t, err)
			n++
		}
		must(t, s.Close())
		return n == 0
	})
	next := r.actor("counter", "a")
	if next == id {
		t.Errorf("it is %s again", id)
	}
	p.started(next)
	if got := p.list(next, rp.KVList{Query: rp.KVAll{}}); got != "" {
		t.Errorf("it has %q", got)
	}
	r.want(200, "{}", "DELETE", "/actors/"+next, "")
	p.toldToStop(next)
}

// TestHibernation: a client's socket outlives the actor's sleep. What it sends is kept until it is acknowledged, and is sent
// again with its index after each start.
func TestHibernation(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t, engine.Options{BrokenThreshold: time.Millisecond})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	at, _ := p.started(id)
	ws := r.dial("/gateway/"+id+"/connect", "rivet", "rivet_encoding.bare")
	if ws.Subprotocol() != "rivet" {
		t.Errorf("%q", ws.Subprotocol())
	}
	open := toActor[rp.SocketOpen](p)
	send := func(text string) { must(t, ws.Write(t.Context(), websocket.MessageBinary, []byte(text))) }
	send("one")
	if m := toActor[rp.SocketMessage](p); m.ID != (rp.MessageID{Tunnel: open.ID.Tunnel, Index: 1}) || string(m.Body.(rp.SocketMessage).Data) != "one" {
		t.Errorf("%+v", m)
	}
	p.toClient(open.ID.Tunnel, rp.SocketMessage{Data: []byte("hello"), Binary: true})
	if _, b, err := ws.Read(t.Context()); string(b) != "hello" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	p.toClient(open.ID.Tunnel, rp.SocketAck{Index: 1})
	send("two")
	toActor[rp.SocketMessage](p)
	p.event(at, rp.Intent(rp.IntentSleep))
	p.toldToStop(id)
	// "two" wasn't acknowledged, so it is started again at once.
	at, start := p.started(id)
	if at.Generation != 2 || len(start.Hibernating) != 1 || start.Hibernating[0] != open.ID.Tunnel {
		t.Errorf("%+v %+v", at, start)
	}
	if m := toActor[rp.SocketMessage](p); m.ID.Index != 2 || string(m.Body.(rp.SocketMessage).Data) != "two" {
		t.Errorf("%+v", m)
	}
	p.toClient(open.ID.Tunnel, rp.SocketAck{Index: 2})
	eventually(t, "two is forgotten", func() bool { return p.list(id, rp.KVList{Query: rp.KVAll{}}) == "" })
	p.event(at, rp.Intent(rp.IntentSleep))
	p.toldToStop(id)
	eventually(t, "sleep", func() bool {
		_, text := r.call("GET", "/actors?actor_ids="+id, "")
		return strings.Contains(text, `"connectable_ts":null`)
	})
	send("three")
	if _, start := p.started(id); len(start.Hibernating) != 1 {
		t.Errorf("%+v", start)
	}
	if m := toActor[rp.SocketMessage](p); m.ID.Index != 3 {
		t.Errorf("%+v", m)
	}
	// The engine ends: the socket, too. The message is there when the actor is started next, and the actor is told
	// that the client has gone.
	r.reopen()
	closed(t, ws)
	p = r.connect("default", "l")
	if got := r.actor("counter", "a"); got != id {
		t.Fatal(got)
	}
	r.want(200, "GET", "GET", "/gateway/"+id+"/", "")
	if _, start := p.started(id); len(start.Hibernating) != 1 || start.Hibernating[0] != open.ID.Tunnel {
		t.Errorf("%+v", start)
	}
	if m := toActor[rp.SocketMessage](p); m.ID != (rp.MessageID{Tunnel: open.ID.Tunnel, Index: 3}) || string(m.Body.(rp.SocketMessage).Data) != "three" {
		t.Errorf("%+v", m)
	}
	if m := toActor[rp.ClientClose](p); m.ID != (rp.MessageID{Tunnel: open.ID.Tunnel, Index: 4}) {
		t.Errorf("%+v", m)
	}
}

// toActor returns what the engine says next to an actor, of a kind.
func toActor[B rp.ToActorBody](p *program) rp.ToActor {
	p.Helper()
	return heardOf(p, func(m rp.ToActor) bool { _, ok := m.Body.(B); return ok })
}

// TestSockets: a socket that can't hibernate ends with the actor's stay in memory, and closes go both ways.
func TestSockets(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	at, _ := p.started(id)
	ws := r.dial("/gateway/"+id+"/websocket/x?y=1", "rivet")
	if open := toActor[rp.SocketOpen](p); open.Body.(rp.SocketOpen).Path != "/websocket/x?y=1" {
		t.Errorf("%+v", open)
	}
	must(t, ws.Write(t.Context(), websocket.MessageText, []byte("hi")))
	if m := toActor[rp.SocketMessage](p); m.ID.Index != 1 || m.Body.(rp.SocketMessage).Binary {
		t.Errorf("%+v", m)
	}
	must(t, ws.Close(websocket.StatusCode(3001), "bye"))
	if m := toActor[rp.ClientClose](p); m.ID.Index != 2 || m.Body.(rp.ClientClose).Code != rp.Some(uint16(3001)) {
		t.Errorf("%+v", m)
	}
	ws = r.dial("/gateway/"+id+"/websocket/x", "rivet")
	open := toActor[rp.SocketOpen](p)
	p.toClient(open.ID.Tunnel, rp.ActorClose{Code: rp.Some(uint16(4000)), Reason: rp.Some("enough")})
	if code, reason := closed(t, ws); code != 4000 || reason != "enough" {
		t.Errorf("%d %s", code, reason)
	}
	ws = r.dial("/gateway/"+id+"/websocket/x", "rivet")
	toActor[rp.SocketOpen](p)
	must(t, ws.Write(t.Context(), websocket.MessageText, []byte("hi")))
	toActor[rp.SocketMessage](p)
	p.event(at, rp.Intent(rp.IntentSleep))
	if code, reason := closed(t, ws); code != websocket.StatusInternalError || reason != "ws.downstream_closed" {
		t.Errorf("%d %s", code, reason)
	}
	if code, reason := closed(t, r.dial("/gateway/none/connect", "rivet")); code != websocket.StatusInternalError || reason != "actor.not_found" {
		t.Errorf("%d %s", code, reason)
	}
}

// TestSocketsClosed: however a client's WebSocket ends, the engine closes its connection.
func TestSocketsClosed(t *testing.T) {
	r := newRig(t, engine.Options{MaxBody: 1000})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "only the runner's connection is open", func() bool { return r.open.Load() == 1 })
	for name, end := range map[string]func(ws *websocket.Conn, id rp.TunnelID){
		"vanishes": func(ws *websocket.Conn, _ rp.TunnelID) { must(t, ws.CloseNow()) },
		"says so":  func(ws *websocket.Conn, _ rp.TunnelID) { must(t, ws.Close(websocket.StatusNormalClosure, "")) },
		"sends too much": func(ws *websocket.Conn, _ rp.TunnelID) {
			must(t, ws.Write(t.Context(), websocket.MessageText, make([]byte, 1001)))
		},
		"is told to go": func(ws *websocket.Conn, id rp.TunnelID) { p.toClient(id, rp.ActorClose{}); closed(t, ws) },
	} {
		ws := r.dial("/gateway/"+id+"/websocket/x", "rivet")
		open := toActor[rp.SocketOpen](p)
		if n := r.open.Load(); n != 2 {
			t.Errorf("%d connections are open, not 2", n)
		}
		end(ws, open.ID.Tunnel)
		eventually(t, "the connection of a client that "+name+" is closed", func() bool { return r.open.Load() == 1 })
	}
}

// TestEviction: a runner with the key of another takes its place, its id and its actors.
func TestEviction(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	p.put(id, "a", "1")
	q := r.connect("default", "k")
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Error("the first one is still connected")
	}
	if got := q.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1" {
		t.Errorf("%q", got)
	}
	q.say(rp.Stopping{})
	q.toldToStop(id)
	eventually(t, "it takes no more", func() bool {
		_, text := r.call("GET", "/runners?namespace=default&name=default", "")
		return strings.Contains(text, `"runners":[]`)
	})
}

// TestHostileRunner: what a runner may not say ends its connection, or is refused, and does others no harm.
func TestHostileRunner(t *testing.T) {
	r := newRig(t, engine.Options{})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	at, _ := p.started(id)
	p.put(id, "a", "1")
	good := []byte{}
	good, err := rp.EngineBound.Append(good, rp.V7, rp.RunnerInit{Name: "x"})
	must(t, err)
	for name, messages := range map[string][][]byte{
		"garbage":     {{0xff, 0xff}},
		"empty":       {{}},
		"half":        {good[:len(good)-1]},
		"before Init": {{3}},
		"Init twice":  {good, good},
	} {
		q := r.program("hostile", rp.V7)
		for _, m := range messages {
			must(t, q.ws.Write(t.Context(), websocket.MessageBinary, m))
		}
		select {
		case <-q.ended:
		case <-time.After(patience):
			t.Errorf("%s: it is still connected", name)
		}
	}
	for _, path := range []string{
		"/runners/connect?protocol_version=4&namespace=default&runner_key=x", "/runners/connect?protocol_version=7&namespace=default",
		"/runners/connect?protocol_version=7&namespace=none&runner_key=x", "/runners/connect?protocol_version=&namespace=default&runner_key=x",
	} {
		r.want(400, "", "GET", path, "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	}
	q := r.connect("default", "other")
	if got, ok := q.keys(id, rp.KVPut{Pairs: many(1, 1)}).(rp.KVError); !ok || got.Message != "actor does not belong to runner" {
		t.Errorf("%+v", got)
	}
	if got, ok := q.keys("none", rp.KVDrop{}).(rp.KVError); !ok {
		t.Errorf("%+v", got)
	}
	q.event(at, rp.Stopped{})
	q.event(at, rp.Intent(rp.IntentStop))
	q.event(rp.Checkpoint{Actor: id, Generation: 1 << 31}, rp.Stopped{})
	heardOf(q, func(a rp.AckEvents) bool { return a[0].Generation == 1<<31 })
	ws := r.dial("/gateway/"+id+"/connect", "rivet")
	open := toActor[rp.SocketOpen](p)
	q.toClient(open.ID.Tunnel, rp.ActorClose{})
	q.toClient(open.ID.Tunnel, rp.SocketMessage{Data: []byte("forged")})
	q.toClient(open.ID.Tunnel, rp.SocketAck{Index: 1 << 15})
	q.keys("none", rp.KVDrop{}) // everything before it was heard
	p.toClient(open.ID.Tunnel, rp.SocketAck{Index: 65535})
	p.toClient(open.ID.Tunnel, rp.ResponseStart{Status: 200})
	p.toClient(open.ID.Tunnel, rp.SocketMessage{Data: []byte("true")})
	if _, b, err := ws.Read(t.Context()); string(b) != "true" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	r.want(200, "GET / ", "GET", "/gateway/"+id+"/", "")
	if got := p.list(id, rp.KVList{Query: rp.KVAll{}}); got != "a=1" {
		t.Errorf("%q", got)
	}
}

// TestTokens: without a token that is good there is nothing but /health and /metadata.
func TestTokens(t *testing.T) {
	const runner, client = "runner-token-0123456789", "client-token-0123456789"
	r := newRig(t, engine.Options{RunnerTokens: []string{runner}, ClientTokens: []string{client}})
	r.want(200, "ok", "GET", "/health", "")
	r.want(200, "runtime", "GET", "/metadata", "")
	for _, path := range []string{
		"/actors?name=x", "/gateway/none/", "/gateway/none@wrong/", "/gateway/x/?rvt-method=get&rvt-token=wrong", "/runners", "/actors/x/kv/keys/YQ==", "/runners/connect?protocol_version=7&runner_key=x",
	} {
		r.want(403, "forbidden", "GET", path, "")
		r.want(403, "forbidden", "GET", path, "", "Authorization", "Bearer wrong")
	}
	r.want(403, "forbidden", "POST", "/namespaces", `{"name":"x"}`, "Authorization", "Bearer "+client)
	r.want(403, "forbidden", "GET", "/runners/connect?protocol_version=7&runner_key=x", "", "X-Rivet-Token", client)
	r.want(403, "forbidden", "GET", "/actors/x/kv/keys/YQ==", "", "X-Rivet-Token", client)
	r.want(400, "not_found", "GET", "/actors/x/kv/keys/YQ==", "", "X-Rivet-Token", runner)
	r.want(200, "x", "POST", "/namespaces", `{"name":"x"}`, "Authorization", "Bearer "+runner)
	r.want(200, "actors", "GET", "/actors?name=x&namespace=x", "", "X-Rivet-Token", client)
	r.want(400, "not_found", "GET", "/gateway/none@"+client+"/", "")
	r.want(400, "not_found", "GET", "/gateway/x/?rvt-method=get&rvt-token="+client, "")
	if code, reason := closed(t, r.dial("/gateway/none/connect", "rivet", "rivet_token."+client)); code != 1011 || reason != "actor.not_found" {
		t.Errorf("%d %s", code, reason)
	}
	if code, reason := closed(t, r.dial("/gateway/none/connect", "rivet")); code != 1011 || reason != "auth.forbidden" {
		t.Errorf("%d %s", code, reason)
	}
}

// TestPages: without tokens only pages of this machine, and requests to it by such a name, are answered.
func TestPages(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.want(403, "auth", "GET", "/metadata", "", "Origin", "https://example.com")
	r.want(200, "", "GET", "/metadata", "", "Origin", "http://localhost:3000")
	r.want(204, "", "OPTIONS", "/actors", "", "Origin", "http://127.0.0.1:3000", "Access-Control-Request-Headers", "x-rivet-token")
	image := "/gateway/counter/x?rvt-method=getOrCreate&rvt-key=image"
	r.want(403, "auth", "GET", image, "", "Sec-Fetch-Site", "cross-site")
	r.want(200, `"actors":[]`, "GET", "/actors?name=counter", "", "Sec-Fetch-Site", "same-origin")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(r.url, "http")+"/gateway/x/connect", &websocket.DialOptions{Host: "evil.example"})
	if err == nil || resp == nil || resp.StatusCode != 421 {
		t.Errorf("%v %+v", err, resp)
	}
}

// TestForeignActors: an actor that isn't RivetKit's, or only a part of one, isn't started.
func TestForeignActors(t *testing.T) {
	r := newRig(t, engine.Options{})
	s, err := actorstore.Open(t.Context(), r.kv, nil)
	must(t, err)
	for name, half := range map[string]bool{"counter/go": false, "counter/half": true} {
		opts := &actorstore.ActorOptions{Name: name}
		key := []byte{4, 'x'}
		if half {
			opts.Layout, key = actorstore.LayoutRivetKit, rivetstore.ImportKey()
		}
		a, err := s.Actor(t.Context(), actorstore.NewID(), opts)
		must(t, err)
		must(t, a.Put(t.Context(), key, rivetstore.AppendImport(nil)))
		must(t, a.Close())
	}
	must(t, s.Close())
	r.connect("default", "k")
	r.want(400, "import_incomplete", "PUT", "/actors", `{"name":"counter","key":"half"}`)
	r.want(400, "not_found", "GET", "/gateway/counter/?rvt-method=get&rvt-key=go", "")
}

// TestLimits: bodies and answers are bounded, each and together, and what was refused leaves nothing behind.
func TestLimits(t *testing.T) {
	r := newRig(t, engine.Options{MaxBody: 1 << 16, Memory: 1<<16 + 1<<15})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	for range 5 {
		r.want(400, "incoming_too_long", "POST", "/gateway/"+id+"/", strings.Repeat("x", 1<<16+1))
		r.want(400, "outgoing_too_long", "POST", "/gateway/"+id+"/", strings.Repeat("x", 1<<16-3))
		r.want(503, "service_unavailable", "POST", "/gateway/"+id+"/", strings.Repeat("x", 3<<14+9)) // the answer has it again
		r.want(200, "xxx", "POST", "/gateway/"+id+"/", strings.Repeat("x", 1<<15))
	}
	ws := r.dial("/gateway/"+id+"/connect", "rivet")
	toActor[rp.SocketOpen](p)
	must(t, ws.Write(t.Context(), websocket.MessageBinary, make([]byte, 1<<16)))
	toActor[rp.SocketMessage](p)
	must(t, ws.Write(t.Context(), websocket.MessageBinary, make([]byte, 1<<16+1)))
	if code, _ := closed(t, ws); code != websocket.StatusMessageTooBig {
		t.Errorf("%d", code)
	}
}
