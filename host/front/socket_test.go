package front

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

var yes, no = true, false

// TestSocket: all that a socket is for, in both forms.
func TestSocket(t *testing.T) {
	for _, as := range []media{mediaJSON, mediaCBOR} {
		t.Run(as.String(), func(t *testing.T) {
			s := newSignal()
			r := newRig(t, Options{}, room(s))
			p := r.join(as, wire.Request{Params: arg(t, "ann")})
			if p.conn == "" || p.token == "" {
				t.Errorf("connected without a token")
			}
			if m := p.want(wire.TypeEvent); m.Event != "hello" || text(m.Body) != `"ann"` {
				t.Errorf("got %+v", m)
			}
			if got := p.call("who", nil); got != `"`+p.conn+`"` {
				t.Errorf("called as %s, connected as %s", got, p.conn)
			}
			if got := p.call("echo", map[string]any{"a": []any{1, 2.5, "x", nil}}); got != `{"a":[1,2.5,"x",null]}` {
				t.Errorf("got %s", got)
			}
			for i, c := range []struct{ action, code string }{
				{"nothing", "no_such_action"}, {"secret", "internal"}, {"deny", "out_of_stock"}, {"panic", "actor_failed"},
			} {
				p.send(&wire.Request{Type: wire.TypeCall, ID: uint64(i + 1), Action: c.action})
				if m := p.want(wire.TypeError); m.Code != c.code || m.ID != uint64(i+1) || m.Message == "" || strings.Contains(m.Message, "password") {
					t.Errorf("%s: got %+v", c.action, m)
				}
			}
			p.call("say", "nobody listens")
			p.send(&wire.Request{Type: wire.TypeSubscribe, ID: 8, Event: "said"})
			p.want(wire.TypeResult)
			p.send(&wire.Request{Type: wire.TypeCall, ID: 9, Action: "say", Args: arg(t, 5)})
			if m := p.want(wire.TypeEvent); m.Event != "said" || text(m.Body) != "5" {
				t.Errorf("got %+v", m)
			}
			p.want(wire.TypeResult) // an event is before the answer to what has caused it
			p.send(&wire.Request{Type: wire.TypeUnsubscribe, ID: 10, Event: "said"})
			p.want(wire.TypeResult)
			p.call("say", "nobody listens any more")
			must(t, p.ws.Close(websocket.StatusNormalClosure, ""))
			if why := <-s.gone; why != "the client has left" {
				t.Errorf("disconnected: %s", why)
			}
			if _, n := r.post("conns", ""); n != "0" {
				t.Errorf("%s connections are left", n)
			}
		})
	}
}

// TestOrder: requests that are sent without waiting are done in their order.
func TestOrder(t *testing.T) {
	r := newRig(t, Options{MaxPending: 100})
	p := r.join(mediaJSON, wire.Request{})
	for i := range 50 {
		p.send(&wire.Request{Type: wire.TypeCall, ID: uint64(i + 1), Action: "add", Args: arg(t, 1)})
	}
	for i := range 50 {
		if m := p.want(wire.TypeResult); m.ID != uint64(i+1) || text(m.Body) != text(arg(t, i+1)) {
			t.Fatalf("answer %d: %+v", i, m)
		}
	}
}

// TestPending: more requests than may wait are refused, and the others done.
func TestPending(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{MaxPending: 2}, room(s))
	p := r.join(mediaJSON, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeCall, ID: 1, Action: "wait"})
	<-s.ready
	for id := range uint64(3) {
		p.send(&wire.Request{Type: wire.TypeCall, ID: id + 2, Action: "add", Args: arg(t, 1)})
	}
	if m := p.want(wire.TypeError); m.Code != "overloaded" || m.ID != 4 {
		t.Errorf("got %+v", m)
	}
	s.going <- struct{}{}
	for id := range uint64(3) {
		if m := p.want(wire.TypeResult); m.ID != id+1 {
			t.Errorf("got %+v", m)
		}
	}
}

// TestRefused: a client that isn't connected is told why.
func TestRefused(t *testing.T) {
	r := newRig(t, Options{})
	for name, c := range map[string]struct {
		first wire.Request
		code  string
		close websocket.StatusCode
	}{
		"by the actor":  {wire.Request{Type: wire.TypeConnect, Params: arg(t, "nobody")}, "unwelcome", wire.CloseRefused},
		"call first":    {wire.Request{Type: wire.TypeCall, Action: "add"}, "bad_message", wire.CloseBad},
		"nothing":       {wire.Request{}, "bad_message", wire.CloseBad},
		"bad token":     {wire.Request{Type: wire.TypeResume, Conn: "x", Token: "y"}, "no_such_connection", wire.CloseRefused},
		"forged token":  {wire.Request{Type: wire.TypeResume, Conn: "x", Token: strings.Repeat("A", 43)}, "no_such_connection", wire.CloseRefused},
		"no token":      {wire.Request{Type: wire.TypeResume}, "no_such_connection", wire.CloseRefused},
		"unknown words": {wire.Request{Type: "hello"}, "bad_message", wire.CloseBad},
	} {
		p := r.dial(mediaJSON)
		p.send(&c.first)
		if m := p.want(wire.TypeError); m.Code != c.code || m.ID != 0 {
			t.Errorf("%s: %+v", name, m)
		}
		p.wantClose(c.close)
	}
	if _, n := r.post("conns", ""); n != "0" {
		t.Errorf("%s connections are left", n)
	}
}

// TestBadMessages: a socket that sends what can't be understood is closed.
func TestBadMessages(t *testing.T) {
	r := newRig(t, Options{MaxBody: 1000})
	for name, c := range map[string]struct {
		as    media
		frame websocket.MessageType
		data  string
		close websocket.StatusCode
	}{
		"no JSON":      {mediaJSON, websocket.MessageText, "{", wire.CloseBad},
		"other frame":  {mediaJSON, websocket.MessageBinary, `{"type":"call"}`, wire.CloseBad},
		"no CBOR":      {mediaCBOR, websocket.MessageBinary, "\xff", wire.CloseBad},
		"empty":        {mediaCBOR, websocket.MessageBinary, "", wire.CloseBad},
		"a list":       {mediaJSON, websocket.MessageText, "[]", wire.CloseBad},
		"negative id":  {mediaJSON, websocket.MessageText, `{"id":-1}`, wire.CloseBad},
		"more than 1k": {mediaJSON, websocket.MessageText, `"` + strings.Repeat("x", 1000) + `"`, websocket.StatusMessageTooBig},
	} {
		p := r.join(c.as, wire.Request{Hibernate: &no})
		must(t, p.ws.Write(t.Context(), c.frame, []byte(c.data)))
		t.Log(name)
		if c.as == mediaCBOR && c.data == "" { // it is undefined: a request without a type
			if m := p.want(wire.TypeError); m.Code != "bad_message" {
				t.Errorf("%s: %+v", name, m)
			}
			continue
		}
		p.wantClose(c.close)
	}
	p := r.join(mediaJSON, wire.Request{})
	p.send(&wire.Request{Type: "nothing", ID: 3})
	if m := p.want(wire.TypeError); m.Code != "bad_message" || m.ID != 3 {
		t.Errorf("got %+v", m)
	}
	p.send(&wire.Request{Type: wire.TypeConnect, ID: 4})
	if m := p.want(wire.TypeError); m.Code != "bad_message" || m.ID != 4 {
		t.Errorf("got %+v", m)
	}
}

// TestProtocols: what a client offers, and what it gets.
func TestProtocols(t *testing.T) {
	for _, c := range []struct {
		offered string
		as      media
		chosen  string
		ok      bool
	}{
		{"", mediaJSON, "", true},
		{"greenroom.v1.json", mediaJSON, "greenroom.v1.json", true},
		{"greenroom.v1.cbor greenroom.v1.json", mediaCBOR, "greenroom.v1.cbor", true},
		{"greenroom.bearer.x greenroom.v1.cbor", mediaCBOR, "greenroom.v1.cbor", true},
		{"greenroom.bearer.x", mediaJSON, "", true},
		{"x greenroom.v1.json", mediaJSON, "greenroom.v1.json", true},
		{"x", 0, "", false},
	} {
		as, chosen, err := chooseProtocol(strings.Fields(c.offered))
		if (err == nil) != c.ok || as != c.as || strings.Join(chosen, " ") != c.chosen {
			t.Errorf("%q: got %v %q %v", c.offered, as, chosen, err)
		}
	}
	r := newRig(t, Options{})
	_, resp, err := websocket.Dial(t.Context(), r.server.URL+"/actors/room/a/connect", &websocket.DialOptions{Subprotocols: []string{"mqtt"}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown protocol: %v", err)
	}
	_, resp, err = websocket.Dial(t.Context(), r.server.URL+"/actors/room/a/connect", &websocket.DialOptions{
		HTTPHeader: http.Header{"Origin": {"http://evil.example"}}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("another origin: %v", err)
	}
}

// TestKick: an actor ends a connection, which can't be resumed then.
func TestKick(t *testing.T) {
	r := newRig(t, Options{})
	p := r.join(mediaJSON, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeCall, ID: 1, Action: "kick", Args: arg(t, strings.Repeat("ü", 100))})
	p.wantClose(wire.CloseGone)
	again := r.dial(mediaJSON)
	again.send(&wire.Request{Type: wire.TypeResume, Conn: conn.ID(p.conn), Token: p.token})
	if m := again.want(wire.TypeError); m.Code != "no_such_connection" {
		t.Errorf("got %+v", m)
	}
	again.wantClose(wire.CloseRefused)
}

// TestMoved: a socket whose actor is at another host is closed, so that its client goes there.
func TestMoved(t *testing.T) {
	a := room(nil)
	a.Actions = append(a.Actions, host.NewAction("move", func(*host.Context, struct{}) (int, error) {
		return 0, fmt.Errorf("as if: %w", actorstore.ErrFenced)
	}))
	p := newRig(t, Options{}, a).join(mediaJSON, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeCall, ID: 1, Action: "move"})
	if m := p.want(wire.TypeError); m.Code != "actor_moved" {
		t.Errorf("got %+v", m)
	}
	p.wantClose(websocket.StatusTryAgainLater)
	if got := p.resume().call("conns", nil); got != "1" {
		t.Errorf("%s connections", got)
	}
}

// TestSlowReader: a client that doesn't read is cut off, and doesn't hold up the others.
func TestSlowReader(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{MaxQueued: 8, MaxQueuedBytes: 1 << 20}, room(s))
	slow := r.join(mediaJSON, wire.Request{})
	slow.send(&wire.Request{Type: wire.TypeSubscribe, ID: 1, Event: "said"})
	slow.want(wire.TypeResult)
	// More than fits into the buffers on the way, of which nothing is read.
	for range 4 {
		if status, answer := r.post("flood", "400"); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	slow.wantClose(wire.CloseSlow)
	if q := slow.resume(); q.conn != slow.conn {
		t.Error("not the same connection")
	}
}

// TestSilent: a client of which nothing is heard is away.
func TestSilent(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{PingInterval: time.Millisecond, PongTimeout: time.Millisecond}, room(s))
	r.close()
	r.hopts.AwayTimeout = time.Millisecond
	r.open()
	// A client sends pongs only while it reads. This one doesn't read at all, not even the
	// message that it is connected, which may be cut off before it is sent.
	r.dial(mediaJSON).send(&wire.Request{Type: wire.TypeConnect})
	if why := <-s.gone; why != "the client didn't come back" {
		t.Errorf("disconnected: %s", why)
	}
}

// TestPings: a client that answers pings stays.
func TestPings(t *testing.T) {
	r := newRig(t, Options{PingInterval: time.Millisecond, PongTimeout: time.Minute})
	pinged := make(chan struct{}, 1000)
	ws, _, err := websocket.Dial(t.Context(), r.server.URL+"/actors/room/a/connect", &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pinged <- struct{}{}:
			default:
			}
			return true
		},
	})
	must(t, err)
	defer ws.CloseNow()
	p := &peer{rig: r, ws: ws}
	p.send(&wire.Request{Type: wire.TypeConnect})
	p.want(wire.TypeConnected)
	read := make(chan *wire.Response, 1)
	go func() {
		m, _ := p.receive()
		read <- m
	}()
	for range 5 {
		<-pinged
	}
	p.send(&wire.Request{Type: wire.TypeCall, ID: 1, Action: "add", Args: arg(t, 1)})
	if m := <-read; m == nil || m.Type != wire.TypeResult {
		t.Errorf("got %+v", m)
	}
}

// TestSocketIdle: a socket over which nothing is asked for is closed, if that is wanted.
func TestSocketIdle(t *testing.T) {
	r := newRig(t, Options{PingInterval: time.Millisecond, SocketIdle: 2 * time.Millisecond})
	r.join(mediaJSON, wire.Request{}).wantClose(wire.CloseSilent)
}

// TestHello: a client that sends no first message is cut off.
func TestHello(t *testing.T) {
	r := newRig(t, Options{HeaderTimeout: 5 * time.Millisecond, MaxSockets: 1})
	p := r.dial(mediaJSON)
	for { // it may be told why
		m, err := p.receive()
		if err != nil {
			break
		}
		if m.Type != wire.TypeError || m.Code != "timeout" {
			t.Errorf("got %+v", m)
		}
	}
}

// TestMaxSockets: no more are open than may be.
func TestMaxSockets(t *testing.T) {
	r := newRig(t, Options{MaxSockets: 1})
	r.join(mediaJSON, wire.Request{})
	_, resp, err := websocket.Dial(t.Context(), r.server.URL+"/actors/room/a/connect", nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a second socket: %v", err)
	}
}

// TestDrain: what a socket has asked for is done before it is closed.
func TestDrain(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{MaxPending: 1}, room(s))
	p, q := r.join(mediaJSON, wire.Request{}), r.join(mediaCBOR, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeCall, ID: 1, Action: "wait"})
	<-s.ready
	p.send(&wire.Request{Type: wire.TypeCall, ID: 2, Action: "add", Args: arg(t, 1)})
	p.send(&wire.Request{Type: wire.TypeCall, ID: 9, Action: "add", Args: arg(t, 1)})
	p.want(wire.TypeError) // so that the one before waits
	down := make(chan error, 1)
	go func() { down <- r.front.Shutdown(t.Context()) }()
	q.wantClose(websocket.StatusServiceRestart)          // it has nothing to wait for
	for code := "overloaded"; code != "shutting_down"; { // it begins some time
		p.send(&wire.Request{Type: wire.TypeCall, ID: 3, Action: "add", Args: arg(t, 1)})
		m := p.want(wire.TypeError)
		if code = m.Code; code != "shutting_down" && code != "overloaded" {
			t.Fatalf("got %+v", m)
		}
	}
	s.going <- struct{}{}
	if m := p.want(wire.TypeResult); m.ID != 1 {
		t.Errorf("got %+v", m)
	}
	if m := p.want(wire.TypeResult); m.ID != 2 {
		t.Errorf("got %+v", m)
	}
	p.wantClose(websocket.StatusServiceRestart)
	must(t, <-down)
	r.reopen()
	if got := p.resume().call("conns", nil); got != "2" {
		t.Errorf("%s connections", got)
	}
}

// TestLeavesAtOnce: a client that opens sockets and leaves, or sends no frames, isn't logged.
func TestLeavesAtOnce(t *testing.T) {
	r := newRig(t, Options{})
	var log bytes.Buffer
	r.front.log = slog.New(slog.NewTextHandler(&log, nil))
	must(t, r.dial(mediaJSON).ws.CloseNow())
	p := r.dial(mediaCBOR)
	must(t, p.ws.Write(p.Context(), websocket.MessageText, []byte("{}")))
	p.wantClose(wire.CloseBad)
	r.close() // when nothing is under way
	if log.Len() > 0 {
		t.Errorf("logged is %s", &log)
	}
}
