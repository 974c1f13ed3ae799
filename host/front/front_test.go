package front

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/metrics/prom"
)

// TestCalls: what is sent, and what comes back.
func TestCalls(t *testing.T) {
	r := newRig(t, Options{})
	const json, cbor = "application/json", "application/cbor"
	const at = "2025-06-01T12:00:00.123456789+05:45"
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		answer                   string // or the code of an error
		kind                     string
	}{
		{"json", "POST", "/actors/room/a/actions/add", "2", []string{"Content-Type", json}, 200, "2", json},
		{"charset", "POST", "/actors/room/a/actions/add", "3", []string{"Content-Type", json + "; charset=utf-8"}, 200, "5", json},
		{"cbor", "POST", "/actors/room/a/actions/add", "\x04", []string{"Content-Type", cbor}, 200, "\x09", cbor},
		{"cbor for json", "POST", "/actors/room/a/actions/add", "0", []string{"Content-Type", json, "Accept", cbor}, 200, "\x09", cbor},
		{"json for cbor", "POST", "/actors/room/a/actions/add", "\x00", []string{"Content-Type", cbor, "Accept", "text/html, application/json;q=0.9, */*;q=0.1"}, 200, "9", json},
		{"anything", "POST", "/actors/room/a/actions/add", "\x00", []string{"Content-Type", cbor, "Accept", "*/*"}, 200, "\x09", cbor},
		{"no body", "POST", "/actors/room/b/actions/conns", "", nil, 200, "0", json},
		{"undefined", "POST", "/actors/room/b/actions/say", "", []string{"Accept", cbor}, 200, "\xf7", cbor},
		{"a key with a slash", "POST", "/actors/room/x%2Fy/actions/add", "1", []string{"Content-Type", json}, 200, "1", json},

		{"time", "POST", "/actors/room/a/actions/time", `"` + at + `"`, []string{"Content-Type", json}, 200, `"` + at + `"`, json},
		{"time in cbor", "POST", "/actors/room/a/actions/time", "\xc0\x78\x23" + at, []string{"Content-Type", cbor}, 200, "\xc0\x78\x23" + at, cbor},
		{"date in cbor", "POST", "/actors/room/a/actions/time", "\xc1\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00", []string{"Content-Type", cbor, "Accept", json}, 200, `"1970-01-01T00:00:01.5Z"`, json},

		{"no type", "POST", "/actors/nothing/a/actions/add", "2", []string{"Content-Type", json}, 404, "no_such_type", json},
		{"no action", "POST", "/actors/room/a/actions/nothing", "2", []string{"Content-Type", json}, 404, "no_such_action", json},
		{"bad key", "POST", "/actors/room/%FF/actions/add", "2", []string{"Content-Type", json}, 400, "bad_address", json},
		{"bad json", "POST", "/actors/room/a/actions/add", "2,", []string{"Content-Type", json}, 400, "bad_arguments", json},
		{"bad cbor", "POST", "/actors/room/a/actions/add", "\x82\x01", []string{"Content-Type", cbor, "Accept", json}, 400, "bad_arguments", json},
		{"other arguments", "POST", "/actors/room/a/actions/add", `"x"`, []string{"Content-Type", json}, 400, "bad_arguments", json},
		{"too deep", "POST", "/actors/room/a/actions/echo", strings.Repeat("[", 200) + strings.Repeat("]", 200), []string{"Content-Type", json}, 400, "bad_arguments", json},
		{"form", "POST", "/actors/room/a/actions/add", "2", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type", json},
		{"no content type", "POST", "/actors/room/a/actions/add", "2", nil, 415, "unsupported_media_type", json},
		{"accept", "POST", "/actors/room/a/actions/add", "2", []string{"Content-Type", json, "Accept", "text/html"}, 406, "not_acceptable", json},
		{"too large", "POST", "/actors/room/a/actions/echo", `"` + strings.Repeat("x", 1<<20) + `"`, []string{"Content-Type", json}, 413, "body_too_large", json},
		{"method", "GET", "/actors/room/a/actions/add", "", nil, 405, "method_not_allowed", json},
		{"no page", "GET", "/index.html", "", nil, 404, "not_found", json},
		{"no socket", "GET", "/actors/room/a/connect", "", nil, 426, "", ""},

		{"internal", "POST", "/actors/room/a/actions/secret", "", nil, 500, "internal", json},
		{"panic", "POST", "/actors/room/a/actions/panic", "", nil, 500, "actor_failed", json},
		{"the actor's", "POST", "/actors/room/a/actions/deny", "", nil, 422, "out_of_stock", json},

		{"health", "GET", "/healthz", "", nil, 200, `{"status":"ok"}`, json},
		{"ready", "GET", "/readyz", "", nil, 200, `{"status":"ready"}`, json},
	} {
		status, answer, h := r.do(c.method, c.path, c.body, c.headers...)
		if status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, status, c.status, answer)
			continue
		}
		if c.kind == "" {
			continue
		}
		if status >= 400 {
			answer = problemOf(t, answer)
		}
		if answer != c.answer || h.Get("Content-Type") != c.kind || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %q, %v, want %q", c.name, answer, h, c.answer)
		}
	}
	for body, want := range map[string]string{
		"2,":  "The body is not one value in JSON.",
		`"x"`: `The action \"add\" takes an integer.`,
	} {
		if _, answer := r.post("add", body); !strings.Contains(answer, want) {
			t.Errorf("%s: got %s, want %s", body, answer, want)
		}
	}
	if status, answer := r.post("add", "0"); status != 200 || answer != "9" {
		t.Errorf("at the end: %d %s", status, answer)
	}
}

// TestTokens: a client without a token gets nothing, over HTTP or a socket.
func TestTokens(t *testing.T) {
	const first, second = "0123456789abcdef", "fedcba9876543210+/"
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) })
	r := newRig(t, Options{Tokens: []string{first, second}, MetricsPage: page, Pages: page})
	for _, c := range []struct {
		path    string
		headers []string
		status  int
	}{
		{"/readyz", nil, 200},
		{"/healthz", nil, 200},
		{"/", nil, 200},
		{"/types", nil, 401},
		{"/types", []string{"Authorization", "Bearer " + first}, 200},
		{"/metrics", nil, 401},
		{"/metrics", []string{"Authorization", "Bearer " + first}, 200},
		{"/metrics", []string{"Authorization", "bearer " + second}, 200},
		{"/metrics", []string{"Authorization", "Basic " + first}, 401},
		{"/metrics", []string{"Authorization", first}, 401},
		{"/metrics", []string{"Authorization", "Bearer " + first[:15]}, 401},
		{"/metrics", []string{"Authorization", "Bearer " + first + "x"}, 401},
		{"/metrics", []string{"Authorization", "Bearer "}, 401},
		{"/metrics?token=" + first, nil, 401},
		{"/actors/room/a/connect", nil, 401},
		{"/actors/room/a/connect", []string{"Authorization", "Bearer " + first}, 426},
		{"/actors/room/a/connect", []string{"Sec-WebSocket-Protocol", "greenroom.v1.json, greenroom.bearer.ZmVkY2JhOTg3NjU0MzIxMCsv"}, 426},
		{"/actors/room/a/connect", []string{"Sec-WebSocket-Protocol", "greenroom.v1.json, greenroom.bearer.ZmVkY2JhOTg3NjU0MzIxMCs"}, 401},
		{"/actors/room/a/connect", []string{"Sec-WebSocket-Protocol", "greenroom.bearer.~"}, 401},
	} {
		status, answer, h := r.do("GET", c.path, "", c.headers...)
		if status != c.status {
			t.Errorf("%s %q: status %d, want %d", c.path, c.headers, status, c.status)
		}
		if status == 401 && (problemOf(t, answer) != "unauthorized" || !strings.HasPrefix(h.Get("WWW-Authenticate"), "Bearer")) {
			t.Errorf("%s %q: %s %v", c.path, c.headers, answer, h)
		}
	}
	if status, _ := r.post("add", "1"); status != 401 {
		t.Errorf("a call without a token: %d", status)
	}
	if status, answer := r.post("add", "1", "Authorization", "Bearer "+second); status != 200 || answer != "1" {
		t.Errorf("a call with a token: %d %s", status, answer)
	}
}

// TestOrigins: pages of the web get nothing, unless they are asked in.
func TestOrigins(t *testing.T) {
	r := newRig(t, Options{Origins: []string{"https://shop.example"}})
	addr := strings.TrimPrefix(r.server.URL, "http://")
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	for _, c := range []struct {
		method  string
		headers []string
		status  int
		code    string
		allowed string
	}{
		{"POST", nil, 200, "", ""},
		{"POST", []string{"Origin", "http://" + addr}, 200, "", ""},
		{"POST", []string{"Origin", "http://evil.example"}, 403, "forbidden_origin", ""},
		{"POST", []string{"Origin", "http://127.0.0.1:1"}, 403, "forbidden_origin", ""},
		{"POST", []string{"Origin", "null"}, 403, "forbidden_origin", ""},
		{"POST", []string{"Origin", "https://shop.example"}, 200, "", "https://shop.example"},
		{"POST", []string{"Origin", "https://shop.example.evil.example"}, 403, "forbidden_origin", ""},
		{"OPTIONS", []string{"Origin", "https://shop.example", "Access-Control-Request-Method", "POST"}, 204, "", "https://shop.example"},
		{"OPTIONS", []string{"Origin", "http://evil.example", "Access-Control-Request-Method", "POST"}, 403, "forbidden_origin", ""},
		// A page whose own name leads here.
		{"POST", []string{"Host", "evil.example:" + port, "Origin", "http://evil.example:" + port}, 403, "forbidden_host", ""},
		{"POST", []string{"Host", "evil.example"}, 403, "forbidden_host", ""},
		{"POST", []string{"Host", "localhost:" + port}, 200, "", ""},
		{"POST", []string{"Host", "[::1]"}, 200, "", ""},
		{"POST", []string{"Host", "127.0.0.1.evil.example"}, 403, "forbidden_host", ""},
	} {
		status, answer, h := r.do(c.method, "/actors/room/a/actions/conns", "", c.headers...)
		if status != c.status || h.Get("Access-Control-Allow-Origin") != c.allowed || h.Get("Vary") != "Origin" && c.code != "forbidden_host" {
			t.Errorf("%s %q: got %d %v", c.method, c.headers, status, h)
		}
		if c.code != "" && problemOf(t, answer) != c.code {
			t.Errorf("%s %q: got %s", c.method, c.headers, answer)
		}
	}
}

// TestLoopbackOnly: without tokens, what didn't come to a loopback address is refused,
// whatever name it gives.
func TestLoopbackOnly(t *testing.T) {
	r := newRig(t, Options{})
	for _, c := range []struct {
		addr   net.Addr
		status int
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, 200},
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, 200},
		{&net.UnixAddr{Net: "unix"}, 200},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, 401},
		{nil, 401},
	} {
		ctx := t.Context()
		if c.addr != nil {
			ctx = context.WithValue(ctx, http.LocalAddrContextKey, c.addr)
		}
		req := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/actors/room/a/actions/conns", nil)
		w := httptest.NewRecorder()
		r.front.ServeHTTP(w, req)
		if w.Code != c.status {
			t.Errorf("%v: %d, want %d", c.addr, w.Code, c.status)
		}
	}
}

// TestHosts: a front may have names.
func TestHosts(t *testing.T) {
	r := newRig(t, Options{Tokens: []string{"0123456789abcdef"}, Hosts: []string{"shop.example"}})
	for name, want := range map[string]int{"shop.example": 200, "SHOP.example:80": 200, "other.example": 403, "127.0.0.1": 403} {
		if status, _, _ := r.do("GET", "/healthz", "", "Host", name); status != want {
			t.Errorf("%s: %d, want %d", name, status, want)
		}
	}
}

// TestOptions: what can't be served isn't.
func TestOptions(t *testing.T) {
	r := newRig(t, Options{})
	secret := []byte("0123456789abcdef")
	for name, opts := range map[string]*Options{
		"nothing":      nil,
		"no token":     {Secret: secret},
		"both":         {Secret: secret, Tokens: []string{"0123456789abcdef"}, WithoutToken: true},
		"empty token":  {Secret: secret, Tokens: []string{""}},
		"short token":  {Secret: secret, Tokens: []string{"0123456789abcdef", "0123456789abcde"}},
		"token spaces": {Secret: secret, Tokens: []string{"0123456789 abcdef"}},
		"no secret":    {Tokens: []string{"0123456789abcdef"}},
	} {
		_, err := New(r.host, opts)
		if !errors.Is(err, ErrOptions) || strings.Contains(err.Error(), "abcde") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBusy: no more calls are under way than may be.
func TestBusy(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{MaxCalls: 1}, room(s))
	done := make(chan int, 1)
	go func() {
		status, _ := r.post("wait", "")
		done <- status
	}()
	<-s.ready
	status, answer, h := r.do("POST", "/actors/room/a/actions/conns", "")
	if status != 503 || problemOf(t, answer) != "busy" || h.Get("Retry-After") == "" {
		t.Errorf("got %d %s %v", status, answer, h)
	}
	s.going <- struct{}{}
	if status := <-done; status != 200 {
		t.Errorf("the first call: %d", status)
	}
}

// TestCallTimeout: a client whose call takes too long gets an error.
func TestCallTimeout(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{CallTimeout: 1}, room(s))
	status, answer := r.post("wait", "")
	// Whether the turn had begun is a matter of chance.
	if code := problemOf(t, answer); code != "timeout" && code != "unknown_outcome" || status != 504 && status != 500 {
		t.Errorf("got %d %s", status, answer)
	}
	s.going <- struct{}{}
}

// TestShutdown: a call under way is answered, and nothing new is taken.
func TestShutdown(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{}, room(s))
	answered := make(chan int, 1)
	go func() {
		status, _ := r.post("wait", "")
		answered <- status
	}()
	<-s.ready
	down := make(chan error, 1)
	go func() { down <- r.front.Shutdown(t.Context()) }()
	for ready := 200; ready == 200; { // it begins some time
		ready, _, _ = r.do("GET", "/readyz", "")
	}
	status, answer := r.post("add", "1")
	if status != 503 || problemOf(t, answer) != "shutting_down" {
		t.Errorf("a call after the beginning of the end: %d %s", status, answer)
	}
	select {
	case err := <-down:
		t.Fatalf("Shutdown didn't wait: %v", err)
	default:
	}
	s.going <- struct{}{}
	if status := <-answered; status != 200 {
		t.Errorf("the call under way: %d", status)
	}
	must(t, <-down)
}

// TestShutdownGivesUp: a call that doesn't end is given up.
func TestShutdownGivesUp(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{}, room(s))
	answered := make(chan string, 1)
	go func() {
		_, answer := r.post("wait", "")
		answered <- answer
	}()
	<-s.ready
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.front.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if code := problemOf(t, <-answered); code != "unknown_outcome" {
		t.Errorf("the call: %s", code)
	}
	s.going <- struct{}{}
}

// TestMetrics: the metrics go together, and are told of.
func TestMetrics(t *testing.T) {
	sink, err := prom.New(Metrics()...)
	must(t, err)
	r := newRig(t, Options{Metrics: sink})
	r.post("add", "1")
	r.post("deny", "")
	if status := statusOfClosed(r); status != 503 {
		t.Errorf("ready after Close: %d", status)
	}
}

// statusOfClosed is what /readyz says when the host is closed, and the front isn't.
func statusOfClosed(r *rig) int {
	must(r, r.host.Close(r.Context()))
	status, _, _ := r.do("GET", "/readyz", "")
	return status
}

// TestServer: a client that doesn't send a header, or a body, is cut off.
func TestServer(t *testing.T) {
	r := newRig(t, Options{HeaderTimeout: 5 * time.Millisecond, BodyTimeout: 5 * time.Millisecond})
	server := r.front.Server()
	// With a clock of its own, a client that is quick enough is so on any machine.
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		for _, part := range []string{"", "POST /actors/room/a/actions/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n1"} {
			c, s := net.Pipe()
			l.conns <- localConn{s}
			if part != "" {
				_, err := io.WriteString(c, part)
				must(t, err)
			}
			answer, err := io.ReadAll(c) // it ends when the server has closed it
			if err != nil || (part == "") != (len(answer) == 0) || strings.Contains(string(answer), " 200 ") {
				t.Errorf("after %q: %q, %v", part, answer, err)
			}
			must(t, c.Close())
		}
		must(t, server.Close())
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	if server.WriteTimeout <= r.front.opts.CallTimeout || server.MaxHeaderBytes == 0 || server.IdleTimeout == 0 {
		t.Errorf("the limits are %+v", server)
	}
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	close(l.closed)
	return nil
}

func (l *pipes) Addr() net.Addr { return localConn{}.LocalAddr() }

// A localConn has come to a loopback address.
type localConn struct{ net.Conn }

func (localConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// TestStatuses: every code of the host's has a status that was thought of.
func TestStatuses(t *testing.T) {
	for err, want := range map[error]int{
		host.ErrNoActor: 404, host.ErrOverloaded: 503, host.ErrUnknownOutcome: 500, context.DeadlineExceeded: 504,
		errors.New("x"): 500, errSlow: 408, &host.Error{Code: "mine"}: 422,
	} {
		if got := status(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
