package front

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/host/internal/wire"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// join opens a rig that shares the engine below with others.
func joinFleet(t testing.TB, below kv.Engine, opts Options, types ...*host.Type) *rig {
	t.Helper()
	r := &rig{TB: t, engine: engines.Shared(below), types: types, opts: opts}
	r.opts.WithoutToken = len(r.opts.Tokens) == 0 && r.opts.Authorize == nil
	r.opts.Logger, r.hopts.Logger, r.hopts.AwayTimeout = quiet, quiet, time.Hour
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	r.opts.Fleet, err = fleet.Open(t.Context(), r.engine, &fleet.Options{Address: ln.Addr().String(), Logger: quiet})
	must(t, err)
	r.hopts.Peers = r.opts.Fleet.Peers()
	r.host, err = host.Open(context.Background(), r.engine, r.types, &r.hopts)
	must(t, err)
	r.opts.Secret, err = StoredSecret(context.Background(), r.engine)
	must(t, err)
	r.front, err = New(r.host, &r.opts)
	must(t, err)
	r.server = httptest.NewUnstartedServer(nil)
	must(t, r.server.Listener.Close())
	r.server.Listener, r.server.Config = ln, r.front.Server()
	r.server.Start()
	t.Cleanup(r.close)
	return r
}

// pair returns two rigs on one engine: one that has the room, and another one.
func pair(t testing.TB, opts Options, types func() *host.Type) (owner, edge *rig) {
	t.Helper()
	below := memkv.New()
	owner, edge = joinFleet(t, below, opts, types()), joinFleet(t, below, opts, types())
	if status, answer := edge.post("add", "0"); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if owner.host.Stats().Awake == 0 {
		return edge, owner
	}
	return owner, edge
}

// TestLink: a socket at a host that hasn't the actor is as one at its host: calls, their order with events, subscriptions, errors, and how it ends.
func TestLink(t *testing.T) {
	for _, as := range []media{mediaJSON, mediaCBOR} {
		s := newSignal()
		owner, edge := pair(t, Options{}, func() *host.Type { return room(s) })
		far := edge.join(as, wire.Request{Params: arg(t, "ada")})
		if hello := far.want(wire.TypeEvent); text(hello.Body) != `"ada"` {
			t.Errorf("got %+v", hello)
		}
		near := owner.join(as, wire.Request{})
		if got := far.call("conns", nil); got != "2" {
			t.Errorf("%s connections", got)
		}
		if got := far.call("who", nil); got != fmt.Sprintf("%q", far.conn) {
			t.Errorf("called by %s, want %s", got, far.conn)
		}
		far.send(&wire.Request{Type: wire.TypeSubscribe, ID: 1, Event: "said"})
		far.want(wire.TypeResult)
		for i := range 20 {
			far.send(&wire.Request{Type: wire.TypeCall, ID: 2, Action: "say", Args: arg(t, i)})
			if e := far.want(wire.TypeEvent); text(e.Body) != fmt.Sprint(i) {
				t.Errorf("event %d: %s", i, text(e.Body))
			}
			far.want(wire.TypeResult)
		}
		near.call("add", 1)
		for _, tt := range [][2]string{{"deny", "out_of_stock"}, {"secret", "internal"}, {"panic", "actor_failed"}, {"none", "no_such_action"}} {
			far.send(&wire.Request{Type: wire.TypeCall, ID: 3, Action: tt[0]})
			if e := far.want(wire.TypeError); e.Code != tt[1] || e.ID != 3 || strings.Contains(e.Message, "password") || len(e.Fault) > 0 {
				t.Errorf("%s: got %+v", tt[0], e)
			}
		}
		far.send(&wire.Request{Type: wire.TypeMoved})
		far.wantClose(wire.CloseBad)

		again := edge.dial(as)
		again.send(&wire.Request{Type: wire.TypeResume, Conn: conn.ID(far.conn), Token: far.token})
		again.want(wire.TypeConnected)
		if got := again.call("who", nil); got != fmt.Sprintf("%q", far.conn) {
			t.Errorf("called by %s, want %s", got, far.conn)
		}
		again.send(&wire.Request{Type: wire.TypeCall, ID: 4, Action: "kick", Args: arg(t, "out")})
		again.wantClose(wire.CloseGone)
		if why := <-s.gone; why != "out" {
			t.Errorf("it went since %q", why)
		}
		left := edge.join(as, wire.Request{})
		must(t, left.ws.Close(websocket.StatusNormalClosure, ""))
		if why := <-s.gone; why != "the client has left" {
			t.Errorf("it went since %q", why)
		}
		refused := edge.dial(as)
		refused.send(&wire.Request{Type: wire.TypeConnect, Params: arg(t, "nobody")})
		if e := refused.want(wire.TypeError); e.Code != "unwelcome" {
			t.Errorf("got %+v", e)
		}
		refused.wantClose(wire.CloseRefused)
		brief := edge.join(as, wire.Request{Hibernate: new(bool)})
		brief.call("add", 1)
		_ = brief.ws.CloseNow()
		<-s.gone
		must(t, near.ws.Close(websocket.StatusNormalClosure, ""))
		<-s.gone
	}
}

// TestLinkResumed: when the host that has the actor goes, in good order, the sockets at other hosts stay open, and go on where the actor is then. No event that
// the actor keeps is lost: the client hears all that was said since.
func TestLinkResumed(t *testing.T) {
	s := newSignal()
	owner, edge := pair(t, Options{}, func() *host.Type { return room(s) })
	p := edge.join(mediaJSON, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeSubscribe, ID: 1, Event: "said"})
	p.want(wire.TypeResult)
	p.call("add", 1)
	owner.close()
	for i := range 5 {
		p.send(&wire.Request{Type: wire.TypeCall, ID: 2, Action: "say", Args: arg(t, i)})
		if e := p.want(wire.TypeEvent); text(e.Body) != fmt.Sprint(i) {
			t.Errorf("event %d: %s", i, text(e.Body))
		}
		p.want(wire.TypeResult)
	}
	if got := p.call("add", 1); got != "2" {
		t.Errorf("the sum is %s", got)
	}
	if got := p.call("who", nil); got != fmt.Sprintf("%q", p.conn) {
		t.Errorf("called by %s, want %s", got, p.conn)
	}
	if len(s.gone) > 0 {
		t.Errorf("it was disconnected: %s", <-s.gone)
	}
}

// TestLinkCaller: an actor knows from whom each request of a socket at another host is, and a client can't say so itself.
func TestLinkCaller(t *testing.T) {
	var now atomic.Value
	now.Store("ada")
	opts := Options{Authorize: func(context.Context, *http.Request, *Access) (*host.Caller, error) {
		return &host.Caller{ID: now.Load().(string)}, nil
	}}
	is := func() *host.Type {
		a := room(nil)
		a.Actions = append(a.Actions, host.NewAction("caller", func(c *host.Context, _ struct{}) (string, error) {
			return c.Caller().ID + " of " + c.Conn().Caller().ID, nil
		}))
		return a
	}
	_, edge := pair(t, opts, is)
	p := edge.join(mediaJSON, wire.Request{Caller: []byte(`{"id":"root"}`)})
	if got := p.call("caller", nil); got != `"ada of ada"` {
		t.Errorf("it is %s", got)
	}
	now.Store("ben")
	p.send(&wire.Request{Type: wire.TypeCall, ID: 7, Action: "caller", Caller: []byte(`{"id":"root"}`)})
	if m := p.want(wire.TypeResult); text(m.Body) != `"ben of ada"` {
		t.Errorf("it is %s", text(m.Body))
	}
	resumed := edge.dial(mediaJSON)
	resumed.send(&wire.Request{Type: wire.TypeResume, Conn: conn.ID(p.conn), Token: p.token})
	if e := resumed.want(wire.TypeError); e.Code != "no_such_connection" {
		t.Errorf("another caller resumes it: %+v", e)
	}
}

// TestHandOverSockets: a socket at a host that gives its actor away stays open, and goes on where the actor is.
func TestHandOverSockets(t *testing.T) {
	s := newSignal()
	owner, edge := pair(t, Options{}, func() *host.Type { return room(s) })
	near, far := owner.join(mediaJSON, wire.Request{}), edge.join(mediaJSON, wire.Request{})
	for _, p := range []*peer{near, far} {
		p.send(&wire.Request{Type: wire.TypeSubscribe, ID: 1, Event: "said"})
		p.want(wire.TypeResult)
	}
	must(t, owner.host.HandOver(t.Context()))
	for i := range 3 {
		// Both are resumed by then, or else will have been by the next call of theirs.
		near.call("conns", nil)
		far.call("conns", nil)
		if status, answer := edge.post("say", fmt.Sprint(i)); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		for _, p := range []*peer{near, far} {
			if e := p.want(wire.TypeEvent); text(e.Body) != fmt.Sprint(i) {
				t.Errorf("event %d: %s", i, text(e.Body))
			}
		}
	}
	if owner.host.Stats().Awake != 0 || edge.host.Stats().Awake != 1 {
		t.Errorf("awake are %d and %d", owner.host.Stats().Awake, edge.host.Stats().Awake)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		owner.close()
	}()
	near.wantClose(websocket.StatusServiceRestart)
	<-closed
	back := edge.dial(mediaJSON)
	back.send(&wire.Request{Type: wire.TypeResume, Conn: conn.ID(near.conn), Token: near.token})
	back.want(wire.TypeConnected)
	if got := far.call("conns", nil); got != "2" || len(s.gone) > 0 {
		t.Errorf("%s connections, %d are gone", got, len(s.gone))
	}
}

// TestGather: a socket at a host where its actor sleeps follows the actor, which another host wakes, before its client asks for anything.
func TestGather(t *testing.T) {
	owner, edge := pair(t, Options{}, func() *host.Type { return room(nil) })
	p := owner.join(mediaJSON, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeSubscribe, ID: 1, Event: "said"})
	p.want(wire.TypeResult)
	a := host.Address{Type: "room", Key: "a"}
	must(t, owner.host.Sleep(t.Context(), actorstore.IDFromName(a.String())))
	heard := make(chan struct{})
	var said sync.WaitGroup
	said.Go(func() {
		for i := 0; ; i++ { // until the client is there
			if _, err := edge.host.Do(host.WithoutForwarding(t.Context()), &host.Call{Actor: a, Action: "say", Args: host.Raw(arg(t, i))}); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-heard:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	p.want(wire.TypeEvent)
	close(heard)
	said.Wait()
	if owner.host.Stats().Awake != 0 || edge.host.Stats().Awake != 1 {
		t.Errorf("awake are %d and %d", owner.host.Stats().Awake, edge.host.Stats().Awake)
	}
}
