package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// must fails the test if err is not nil.
var must = testkit.Must

// A rig is a front with its host on a server of its own.
type rig struct {
	testing.TB
	engine kv.Engine
	types  []*host.Type
	opts   Options
	hopts  host.Options
	host   *host.Host
	front  *Front
	server *httptest.Server
	closed bool
}

var quiet = slog.New(slog.DiscardHandler)

func newRig(t testing.TB, opts Options, types ...*host.Type) *rig {
	t.Helper()
	r := &rig{TB: t, engine: memkv.New(), types: types, opts: opts}
	if len(types) == 0 {
		r.types = []*host.Type{room(nil)}
	}
	r.opts.WithoutToken = len(r.opts.Tokens) == 0 && r.opts.Authorize == nil
	r.opts.Logger, r.hopts.Logger = quiet, quiet
	// What isn't about time has enough of it, on a machine that stands still for a while, too.
	for _, d := range []*time.Duration{&r.opts.HeaderTimeout, &r.opts.BodyTimeout, &r.opts.WriteTimeout, &r.opts.PongTimeout, &r.opts.CallTimeout, &r.hopts.TurnTimeout} {
		or(d, time.Hour)
	}
	r.open()
	t.Cleanup(func() {
		r.close()
		must(t, r.engine.Close())
	})
	return r
}

func (r *rig) open() {
	r.Helper()
	var err error
	r.host, err = host.Open(context.Background(), r.engine, r.types, &r.hopts)
	must(r, err)
	r.opts.Secret, err = StoredSecret(context.Background(), r.engine)
	must(r, err)
	r.front, err = New(r.host, &r.opts)
	must(r, err)
	r.server = httptest.NewUnstartedServer(nil)
	r.server.Config = r.front.Server()
	// A test of what is slow must not depend on how fast the rest is.
	r.server.Config.ReadHeaderTimeout, r.server.Config.ReadTimeout, r.server.Config.WriteTimeout = 0, 0, 0
	r.server.Start()
	r.closed = false
}

// close is a shutdown in good order. It does nothing the second time.
func (r *rig) close() {
	r.Helper()
	if r.closed {
		return
	}
	r.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience(time.Second))
	defer cancel()
	must(r, r.front.Shutdown(ctx))
	r.server.Close()
	must(r, r.host.Close(ctx))
}

// reopen is a restart in good order.
func (r *rig) reopen() {
	r.Helper()
	r.close()
	r.open()
}

// do makes a request, with headers as name and value by turns.
func (r *rig) do(method, path, body string, headers ...string) (status int, answer string, h http.Header) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.server.URL+path, strings.NewReader(body))
	must(r, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := r.server.Client().Do(req)
	must(r, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(r, err)
	return resp.StatusCode, string(b), resp.Header
}

// post calls an action of the room with JSON.
func (r *rig) post(action, args string, headers ...string) (int, string) {
	r.Helper()
	status, answer, _ := r.do("POST", "/actors/room/a/actions/"+action, args, append(headers, "Content-Type", "application/json")...)
	return status, answer
}

// A peer is a client of a socket.
type peer struct {
	*rig
	ws *websocket.Conn
	as media

	conn  string
	token string
}

// dial opens a socket to the room, with headers as name and value by turns, and sends nothing.
func (r *rig) dial(as media, headers ...string) *peer {
	r.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	protocol := wire.ProtocolJSON
	if as == mediaCBOR {
		protocol = wire.ProtocolCBOR
	}
	ws, resp, err := websocket.Dial(r.Context(), r.server.URL+"/actors/room/a/connect", &websocket.DialOptions{Subprotocols: []string{protocol}, HTTPHeader: h})
	must(r, err)
	if got := resp.Header.Get("Sec-Websocket-Protocol"); got != protocol {
		r.Fatalf("the subprotocol is %q", got)
	}
	ws.SetReadLimit(16 << 20)
	p := &peer{rig: r, ws: ws, as: as}
	r.Cleanup(func() { _ = ws.CloseNow() })
	return p
}

func (p *peer) send(m *wire.Request) {
	p.Helper()
	b, err := p.as.encode(m)
	must(p, err)
	must(p, p.ws.Write(p.Context(), p.as.frame(), b))
}

func (p *peer) receive() (*wire.Response, error) {
	_, b, err := p.ws.Read(p.Context())
	if err != nil {
		return nil, err
	}
	m := &wire.Response{}
	return m, p.as.decode(b, m)
}

// want receives a message of that type.
func (p *peer) want(kind string) *wire.Response {
	p.Helper()
	m, err := p.receive()
	must(p, err)
	if m.Type != kind {
		p.Errorf("got %+v, want a message of type %s", m, kind)
	}
	return m
}

// wantClose receives until the socket is closed, with that code.
func (p *peer) wantClose(code websocket.StatusCode) {
	p.Helper()
	for {
		_, err := p.receive()
		if err == nil {
			continue
		}
		if got := websocket.CloseStatus(err); got != code {
			p.Fatalf("closed with %d, want %d: %v", got, code, err)
		}
		return
	}
}

// text returns a value as JSON.
func text(v wire.Value) string {
	b, err := v.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// arg returns a Go value as one of a message.
func arg(t testing.TB, v any) wire.Value {
	t.Helper()
	r, err := host.Encode(v)
	must(t, err)
	return wire.Value(r)
}

// join connects to the room.
func (r *rig) join(as media, m wire.Request, headers ...string) *peer {
	r.Helper()
	p := r.dial(as, headers...)
	m.Type = wire.TypeConnect
	p.send(&m)
	hello := p.want(wire.TypeConnected)
	p.conn, p.token = string(hello.Conn), hello.Token
	return p
}

// call calls an action over the socket and returns the result as JSON.
func (p *peer) call(action string, args any) string {
	p.Helper()
	p.send(&wire.Request{Type: wire.TypeCall, ID: 7, Action: action, Args: arg(p, args)})
	m := p.want(wire.TypeResult)
	if m.ID != 7 {
		p.Fatalf("the answer is for %d", m.ID)
	}
	return text(m.Body)
}

// A signal tells a test of the hooks of the room.
type signal struct {
	gone  chan string   // gets why connections went
	ready chan struct{} // gets a value when "wait" runs
	going chan struct{} // lets "wait" go on
}

func newSignal() *signal {
	return &signal{gone: make(chan string, 16), ready: make(chan struct{}, 16), going: make(chan struct{}, 16)}
}

// room is the actor of most tests. s may be nil.
func room(s *signal) *host.Type {
	a := &host.Type{
		Name: "room",
		Actions: []host.AnyAction{
			host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
				err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
				return total, err
			}),
			host.NewAction("time", func(_ *host.Context, at time.Time) (time.Time, error) { return at, nil }),
			host.NewAction("echo", func(_ *host.Context, v host.Raw) (host.Raw, error) { return v, nil }),
			host.NewCommand("say", func(c *host.Context, v host.Raw) error {
				return c.Broadcast("said", v)
			}),
			host.NewCommand("flood", func(c *host.Context, n int) error {
				for range n {
					if err := c.Broadcast("said", bytes.Repeat([]byte("x"), 1<<16)); err != nil {
						return err
					}
				}
				return nil
			}),
			host.NewAction("who", func(c *host.Context, _ struct{}) (string, error) {
				if c.Conn() == nil {
					return "", nil
				}
				return string(c.Conn().ID()), nil
			}),
			host.NewAction("conns", func(c *host.Context, _ struct{}) (int, error) { return len(c.Connections()), nil }),
			host.NewCommand("kick", func(c *host.Context, why string) error { return c.Conn().Disconnect(why) }),
			host.NewAction("secret", func(*host.Context, struct{}) (int, error) { return 0, errors.New("the password is x") }),
			host.NewAction("deny", func(*host.Context, struct{}) (int, error) {
				return 0, &host.Error{Code: "out_of_stock", Message: "There are none left.", Err: errors.New("the password is x")}
			}),
			host.NewAction("panic", func(*host.Context, struct{}) (int, error) { panic("the password is x") }),
		},
		Connect: func(c *host.Context, n *host.Conn) error {
			var name string
			if err := n.Parameters(&name); err != nil {
				return err
			}
			if name == "nobody" {
				return &host.Error{Code: "unwelcome", Message: "You are not welcome."}
			}
			if name != "" {
				return n.Send("hello", name) // before the client is told that it is connected
			}
			return nil
		},
	}
	if s != nil {
		a.Disconnect = func(_ *host.Context, _ *host.Conn, reason string) error { s.gone <- reason; return nil }
		a.Actions = append(a.Actions, host.NewAction("wait", func(c *host.Context, _ struct{}) (int, error) {
			s.ready <- struct{}{}
			select {
			case <-s.going:
				return 1, nil
			case <-c.Done():
				return 0, c.Err()
			}
		}))
	}
	return a
}

// problemOf reads an error's code.
func problemOf(t testing.TB, answer string) string {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil || p.Code == "" || p.Message == "" {
		t.Fatalf("%q is no error: %v", answer, err)
	}
	if strings.Contains(answer, "password") {
		t.Fatalf("told too much: %s", answer)
	}
	return p.Code
}
