package front

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// guarded is a room of which the callers are asked about.
func guarded() *host.Type {
	return &host.Type{Name: "room", Actions: []host.AnyAction{
		host.NewAction("who", func(c *host.Context, _ struct{}) (string, error) {
			of := "-"
			if n := c.Conn(); n != nil && n.Caller() != nil {
				of = n.Caller().ID
			}
			if c.Caller() == nil {
				return "- " + of, nil
			}
			return c.Caller().ID + " " + of, nil
		}),
		host.NewCommand("secret", func(*host.Context, struct{}) error { return nil }),
	}}
}

// doorkeeper lets ann and bob do what they like but for secrets, and others nothing. While it is closed nothing is allowed.
func doorkeeper(closed *atomic.Bool) func(context.Context, *http.Request, *Access) (*host.Caller, error) {
	return func(ctx context.Context, r *http.Request, a *Access) (*host.Caller, error) {
		if _, ok := ctx.Deadline(); !ok {
			return nil, errors.New("it may take for ever")
		}
		user := r.Header.Get("User")
		switch {
		case user == "":
			return nil, fmt.Errorf("no header: %w", ErrUnauthenticated)
		case user == "none":
			return nil, nil
		case user == "slow":
			return nil, context.DeadlineExceeded
		case a.Action == "secret", a.Event == "secret", closed.Load():
			return nil, errors.New("the key of tenant 7 doesn't fit")
		case user == "told":
			return nil, fmt.Errorf("limits: %w", &host.Error{Code: "out_of_money", Message: "Pay first."})
		}
		return &host.Caller{ID: user}, nil
	}
}

// TestAuthorize: calls, sockets and subscriptions have the caller that Authorize returns, and are refused if it says so, without the reason.
func TestAuthorize(t *testing.T) {
	const token = "0123456789abcdef"
	var closed atomic.Bool
	r := newRig(t, Options{Tokens: []string{token}, Authorize: doorkeeper(&closed), MetricsPage: http.NotFoundHandler()}, guarded())
	for _, c := range []struct {
		action, user string
		status       int
		answer       string
	}{
		{"who", "ann", 200, `"ann -"`}, {"who", "none", 200, `" -"`}, {"who", "", 401, "unauthorized"}, {"secret", "ann", 403, "forbidden"}, {"nothing", "ann", 404, "no_such_action"},
		{"who", "told", 422, "out_of_money"}, {"who", "slow", 504, "timeout"},
	} {
		headers := []string{"User", c.user}
		if c.user == "" {
			headers = nil
		}
		status, answer := r.post(c.action, "null", headers...)
		if status != c.status || !strings.Contains(answer, c.answer) || strings.Contains(answer, "tenant 7") {
			t.Errorf("%s by %q: %d %s", c.action, c.user, status, answer)
		}
	}
	if status, answer := r.post("secret", "null", "Authorization", "Bearer "+token); status != 200 {
		t.Errorf("with a token: %d %s", status, answer)
	}
	if status, _, _ := r.do("GET", "/metrics", "", "User", "ann"); status != 401 {
		t.Errorf("the metrics are there for callers: %d", status)
	}
	if status, answer, _ := r.do("POST", "/actors/nothing/a/actions/who", "null", "Content-Type", "application/json"); status != 401 {
		t.Errorf("which types there are is told to others: %d %s", status, answer)
	}

	_, resp, err := websocket.Dial(t.Context(), r.server.URL+"/actors/room/a/connect", &websocket.DialOptions{Subprotocols: []string{wire.ProtocolJSON}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a socket without a caller: %v", err)
	}
	p := r.join(mediaJSON, wire.Request{}, "User", "ann")
	if got := p.call("who", nil); got != `"ann ann"` {
		t.Errorf("through a socket: %s", got)
	}
	refused := func(m wire.Request) {
		t.Helper()
		p.send(&m)
		if got := p.want(wire.TypeError); got.Code != "forbidden" || strings.Contains(got.Message, "tenant") {
			t.Errorf("%s: %+v", m.Type, got)
		}
	}
	refused(wire.Request{Type: wire.TypeCall, ID: 1, Action: "secret"})
	refused(wire.Request{Type: wire.TypeSubscribe, ID: 2, Event: "secret"})
	p.send(&wire.Request{Type: wire.TypeSubscribe, ID: 3, Event: "news"})
	p.want(wire.TypeResult)
	closed.Store(true)
	refused(wire.Request{Type: wire.TypeCall, ID: 4, Action: "who"})
	refused(wire.Request{Type: wire.TypeSubscribe, ID: 5, Event: "news"})
	p.send(&wire.Request{Type: wire.TypeUnsubscribe, ID: 6, Event: "news"})
	p.want(wire.TypeResult)
	closed.Store(false)
	must(t, p.ws.CloseNow())

	r.reopen()
	for user, want := range map[string]string{"bob": wire.TypeError, "none": wire.TypeError, "ann": wire.TypeConnected} {
		again := r.dial(mediaJSON, "User", user)
		again.send(&wire.Request{Type: wire.TypeResume, Conn: "", Token: p.token})
		if m := again.want(wire.TypeError); m.Code != "no_such_connection" {
			t.Errorf("%s, without the id: %+v", user, m)
		}
		again = r.dial(mediaJSON, "User", user)
		again.send(&wire.Request{Type: wire.TypeResume, Token: p.token, Conn: conn.ID(p.conn)})
		if m := again.want(want); want == wire.TypeError && m.Code != "no_such_connection" {
			t.Errorf("%s: %+v", user, m)
		} else if want == wire.TypeConnected {
			if got := again.call("who", nil); got != `"ann ann"` {
				t.Errorf("resumed: %s", got)
			}
		}
	}
	byToken := r.join(mediaJSON, wire.Request{}, "Authorization", "Bearer "+token)
	if got := byToken.call("who", nil); got != `"- -"` {
		t.Errorf("with a token: %s", got)
	}
}

// TestAuthorizeAlone: tokens aren't needed beside Authorize, and WithoutToken doesn't go with it.
func TestAuthorizeAlone(t *testing.T) {
	var closed atomic.Bool
	secret := make([]byte, 16)
	for _, c := range []struct {
		o  Options
		ok bool
	}{
		{Options{Secret: secret, Authorize: doorkeeper(&closed)}, true}, {Options{Secret: secret}, false},
		{Options{Secret: secret, Authorize: doorkeeper(&closed), WithoutToken: true}, false},
	} {
		if _, err := c.o.orDefault(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	r := newRig(t, Options{Authorize: doorkeeper(&closed), CallTimeout: time.Hour}, guarded())
	if status, answer := r.post("who", "null", "User", "ann", "Host", "shop.example"); status != 200 || answer != `"ann -"` {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := r.post("who", "null", "Authorization", "Bearer "); status != 401 {
		t.Errorf("%d %s", status, answer)
	}
}

// TestAuthorizeEnds: a socket ends with the right of its caller to it, and its subscriptions with it, although the client asks for nothing. A socket stays open while that can't be found out, and the
// connection is there to be resumed.
func TestAuthorizeEnds(t *testing.T) {
	var state atomic.Int32
	var asked atomic.Int64
	r := newRig(t, Options{PingInterval: time.Millisecond, Authorize: func(_ context.Context, _ *http.Request, a *Access) (*host.Caller, error) {
		asked.Add(1)
		switch {
		case a.Kind != AccessConnect || a.Actor != host.Address{Type: "room", Key: "a"}:
			return nil, fmt.Errorf("asked for %+v", a)
		case state.Load() == 1:
			return nil, &host.Error{Code: "unavailable", Message: "Later."}
		case state.Load() == 2:
			return nil, ErrUnauthenticated
		}
		return &host.Caller{ID: "ann"}, nil
	}})
	p := r.join(mediaJSON, wire.Request{})
	first := make(chan *wire.Response, 1)
	go func() {
		m, _ := p.receive()
		first <- m
	}()
	wait := func(n int64) {
		for n += asked.Load(); asked.Load() < n; {
			select {
			case m := <-first:
				t.Fatalf("got %+v", m)
			default:
				runtime.Gosched()
			}
		}
	}
	wait(3)
	state.Store(1)
	wait(3)
	state.Store(2)
	if m := <-first; m == nil || m.Type != wire.TypeError || m.Code != "unauthorized" {
		t.Errorf("got %+v", m)
	}
	p.wantClose(wire.CloseRefused)
	state.Store(0)
	again := r.dial(mediaJSON)
	again.send(&wire.Request{Type: wire.TypeResume, Token: p.token, Conn: conn.ID(p.conn)})
	again.want(wire.TypeConnected)
}

// TestAuthorizePanics: an Authorize that panics refuses what it is asked about, over HTTP, through a socket, and about a socket that is open; the program goes on, and serves others.
func TestAuthorizePanics(t *testing.T) {
	var still atomic.Bool
	r := newRig(t, Options{PingInterval: time.Millisecond, Authorize: func(_ context.Context, r *http.Request, a *Access) (*host.Caller, error) {
		if user := r.Header.Get("User"); a.Action == "secret" || a.Event == "secret" || user == "eve" && still.Load() {
			panic("the key of tenant 7 is missing")
		}
		return &host.Caller{ID: "ann"}, nil
	}}, guarded())
	if status, answer := r.post("secret", "null"); status != 500 || !strings.Contains(answer, `"internal"`) || strings.Contains(answer, "tenant") {
		t.Errorf("%d %s", status, answer)
	}
	p := r.join(mediaJSON, wire.Request{})
	for i, m := range []wire.Request{{Type: wire.TypeCall, Action: "secret"}, {Type: wire.TypeSubscribe, Event: "secret"}} {
		m.ID = uint64(i + 1)
		p.send(&m)
		if got := p.want(wire.TypeError); got.ID != m.ID || got.Code != "internal" || strings.Contains(got.Message, "tenant") {
			t.Errorf("%s: %+v", m.Type, got)
		}
	}
	eve := r.join(mediaJSON, wire.Request{}, "User", "eve")
	still.Store(true)
	if got := eve.want(wire.TypeError); got.Code != "internal" {
		t.Errorf("about a socket: %+v", got)
	}
	eve.wantClose(wire.CloseRefused)
	if got := p.call("who", nil); got != `"ann ann"` {
		t.Errorf("afterwards: %s", got)
	}
}
