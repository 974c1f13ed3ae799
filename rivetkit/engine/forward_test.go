package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// openConns are the connections of a listener, also those of WebSockets.
type openConns struct {
	net.Listener
	mu  sync.Mutex
	all []net.Conn
}

func (l *openConns) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, c)
	}
	return c, err
}

// cut closes all of them, as the end of a process does.
func (l *openConns) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		_ = c.Close()
	}
}

// member starts an engine that passes requests on to others of the store in below. wrap, if it isn't nil, is put around its handler.
func member(t testing.TB, below kv.Engine, opts engine.Options, wrap func(http.Handler) http.Handler) *rig {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	conns := &openConns{Listener: s.Listener}
	s.Listener = conns
	r := &rig{TB: t, kv: engines.Shared(below), opts: opts, client: http.DefaultClient}
	r.opts.Logger = slog.New(slog.DiscardHandler)
	r.opts.Peers = &engine.Peers{Address: s.Listener.Addr().String()}
	if r.opts.Store == nil {
		r.opts.Store = &actorstore.Options{Host: actorstore.HostOptions{TTL: time.Second}}
	}
	var err error
	r.engine, err = engine.Open(t.Context(), r.kv, &r.opts)
	must(t, err)
	s.Config.Handler = r.engine
	if wrap != nil {
		s.Config.Handler = wrap(r.engine)
	}
	s.Start()
	r.url, r.stop = s.URL, func() {
		conns.cut()
		s.Close()
	}
	t.Cleanup(r.close)
	return r
}

// twoEngines returns an engine with a runner that has an actor, and another one of the same store.
func twoEngines(t testing.TB, wrap func(http.Handler) http.Handler) (owner, other *rig, p *program, id string) {
	t.Helper()
	below := memkv.New()
	owner, other = member(t, below, engine.Options{}, wrap), member(t, below, engine.Options{}, nil)
	p = owner.connect("default", "k")
	id = owner.actor("counter", "a")
	p.started(id)
	return owner, other, p, id
}

// TestForward: a request for an actor of another engine goes there as it is, and its answer comes back as it is.
func TestForward(t *testing.T) {
	_, other, p, id := twoEngines(t, nil)
	p.mu.Lock()
	p.reply = func(m rp.ToActor, b rp.RequestStart) {
		h := map[string]string{}
		for _, header := range b.Headers {
			h[header.Name] = header.Value
		}
		p.toClient(m.ID.Tunnel, rp.ResponseStart{
			Status: 418, Headers: []rp.Header{{Name: "x-from", Value: "actor"}, {Name: "greenroom-reason", Value: "moved"}},
			Body: fmt.Appendf(nil, "%s %s %d %s %s", b.Method, b.Path, len(b.Body), h["x-some"], h["host"]),
		})
	}
	p.mu.Unlock()
	host := strings.TrimPrefix(other.url, "http://")
	body := strings.Repeat("x", 3<<20)
	for _, path := range []string{"/gateway/" + id + "/a%2Fb?c=%20d", "/gateway/counter/a%2Fb?rvt-method=get&rvt-key=a&c=%20d", "/gateway/counter/a%2Fb?rvt-method=getOrCreate&rvt-key=a&c=%20d"} {
		r, err := http.NewRequestWithContext(t.Context(), "PATCH", other.url+path, strings.NewReader(body))
		must(t, err)
		r.Header.Set("X-Some", "value")
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		want := fmt.Sprintf("PATCH /a%%2Fb?c=%%20d %d value %s", len(body), host)
		if answer.StatusCode != 418 || string(text) != want || answer.Header.Get("X-From") != "actor" || answer.Header.Get("Greenroom-Reason") != "" ||
			len(answer.Header.Values("Access-Control-Allow-Origin")) != 1 {
			t.Errorf("%s: %d %s %v, want %s", path, answer.StatusCode, text, answer.Header, want)
		}
	}
}

// TestForwardStream: an answer that comes in pieces is passed on piece by piece, and one that is cut off is cut off.
func TestForwardStream(t *testing.T) {
	_, other, p, id := twoEngines(t, nil)
	tunnels := make(chan rp.TunnelID, 1)
	p.mu.Lock()
	p.reply = func(m rp.ToActor, _ rp.RequestStart) {
		p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 200, Stream: true, Body: []byte("one")})
		tunnels <- m.ID.Tunnel
	}
	p.mu.Unlock()
	for _, whole := range []bool{true, false} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", other.url+"/gateway/"+id+"/", nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		read := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != want {
				t.Errorf("got %q, %v", got, err)
			}
		}
		read("one")
		tunnel := <-tunnels
		p.toClient(tunnel, rp.ResponseChunk{Data: []byte("two")})
		read("two")
		if whole {
			p.toClient(tunnel, rp.ResponseChunk{Data: []byte("three"), Finish: true})
			read("three")
		} else {
			p.toClient(tunnel, rp.ResponseAbort{})
		}
		if _, err := io.ReadAll(answer.Body); (err == nil) != whole {
			t.Errorf("whole is %v, and it ends with %v", whole, err)
		}
		must(t, answer.Body.Close())
	}
}

// TestForwardGone: an actor hears that a client has gone whose request another engine has passed on.
func TestForwardGone(t *testing.T) {
	_, other, p, id := twoEngines(t, nil)
	p.mu.Lock()
	p.reply = func(rp.ToActor, rp.RequestStart) {}
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", other.url+"/gateway/"+id+"/", nil)
	must(t, err)
	done := make(chan error, 1)
	go func() {
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			err = answer.Body.Close()
		}
		done <- err
	}()
	open := toActor[rp.RequestStart](p)
	cancel()
	<-done
	if m := toActor[rp.RequestAbort](p); m.ID.Tunnel != open.ID.Tunnel {
		t.Errorf("%+v", m)
	}
}

// TestForwardDestroy: an actor of another engine ends, and another one may have its key then.
func TestForwardDestroy(t *testing.T) {
	_, other, p, id := twoEngines(t, nil)
	other.want(200, "{}", "DELETE", "/actors/"+id, "")
	p.toldToStop(id)
	if next := other.actor("counter", "a"); next == id {
		t.Error("it is there still")
	}
	other.want(400, "not_found", "GET", "/gateway/"+id+"/", "")
}

// breaking passes requests on to next, and breaks those that an engine has signed, each in the next one of the modes.
func breaking(modes <-chan string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Greenroom-Signature"]) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		switch <-modes {
		case "before": // the connection ends when the request is there
			panic(http.ErrAbortHandler)
		case "after":
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case "proxy":
			w.WriteHeader(http.StatusBadGateway)
		case "other": // as a server that isn't an engine
			w.WriteHeader(http.StatusNotFound)
		case "query":
			r.URL.RawQuery = "changed"
			next.ServeHTTP(w, r)
		case "body":
			r.Body = io.NopCloser(strings.NewReader("X"))
			next.ServeHTTP(w, r)
		case "emptied":
			r.Body, r.ContentLength = http.NoBody, 0
			next.ServeHTTP(w, r)
		case "forged":
			r.Header.Set("Greenroom-Signature", r.Header.Get("Greenroom-Signature")[1:])
			next.ServeHTTP(w, r)
		case "unsigned":
			r.Header.Set("Greenroom-Signature", "none")
			next.ServeHTTP(w, r)
		case "twice":
			again := r.Clone(r.Context())
			again.Body = io.NopCloser(strings.NewReader("x"))
			next.ServeHTTP(httptest.NewRecorder(), again)
			next.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// TestForwardLost: what is lost on the way is told as it is: nothing was done, or that isn't known.
func TestForwardLost(t *testing.T) {
	modes := make(chan string, 1)
	owner, other, p, id := twoEngines(t, func(next http.Handler) http.Handler { return breaking(modes, next) })
	var landed atomic.Int64
	p.mu.Lock()
	p.reply = func(m rp.ToActor, b rp.RequestStart) {
		landed.Add(1)
		p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 200, Body: fmt.Appendf(nil, "%s %s %s", b.Method, b.Path, b.Body)})
	}
	p.mu.Unlock()
	for _, tt := range []struct {
		mode  string
		code  int
		text  string
		lands int64
	}{
		{"before", 500, "actor.unknown_outcome", 0}, {"after", 500, "actor.unknown_outcome", 1}, {"proxy", 500, "actor.unknown_outcome", 0},
		{"other", 503, "guard.service_unavailable", 0}, {"query", 503, "guard.service_unavailable", 0}, {"body", 400, "api.invalid_request", 0},
		{"emptied", 503, "guard.service_unavailable", 0}, {"forged", 503, "guard.service_unavailable", 0}, {"unsigned", 503, "guard.service_unavailable", 0},
		{"twice", 500, "actor.unknown_outcome", 1}, {"", 200, "POST / x", 1},
	} {
		modes <- tt.mode
		code, text := other.call("POST", "/gateway/"+id+"/", "x")
		group, rest, _ := strings.Cut(tt.text, ".")
		if code != tt.code || !strings.Contains(text, group) || !strings.Contains(text, rest) {
			t.Errorf("%s: %d %s, want %d %s", tt.mode, code, text, tt.code, tt.text)
		}
		if n := landed.Swap(0); n != tt.lands {
			t.Errorf("%s: %d have landed, want %d", tt.mode, n, tt.lands)
		}
	}
	owner.stop() // it has the actor still
	other.client = &http.Client{Transport: &http.Transport{}}
	get := func() (code int, after string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", other.url+"/gateway/"+id+"/", nil)
		must(t, err)
		answer, err := other.client.Do(r)
		must(t, err)
		must(t, answer.Body.Close())
		return answer.StatusCode, answer.Header.Get("Retry-After")
	}
	code, after := get()
	if code == 500 { // it went over a connection of before, of whose end the engine did not know yet
		code, after = get()
	}
	if code != 503 || after == "" {
		t.Errorf("%d, Retry-After %q", code, after)
	}
}

// TestForwardToken: the engine that is asked decides on a client's token, and a request that only seems to come from an engine opens nothing.
func TestForwardToken(t *testing.T) {
	below := memkv.New()
	tokens := engine.Options{RunnerTokens: []string{"none"}, ClientTokens: []string{"client"}}
	owner, other := member(t, below, tokens, nil), member(t, below, tokens, nil)
	p := owner.connect("default", "k")
	owner.want(200, "actor_id", "PUT", "/actors", `{"name":"counter","key":"a","runner_name_selector":"default"}`, "X-Rivet-Token", "client")
	at := "/gateway/counter/x?rvt-method=get&rvt-key=a"
	other.want(403, "forbidden", "GET", at, "")
	other.want(200, "GET /x", "GET", at, "", "X-Rivet-Token", "client")
	toActor[rp.RequestStart](p)
	owner.want(403, "forbidden", "GET", at, "")
	if code, text := owner.call("GET", at, "", "Greenroom-Signature", "AAAA"); code != http.StatusUnauthorized || text != "" {
		t.Errorf("%d %s", code, text)
	}
	if code, text := other.call("GET", at, "", "X-Rivet-Token", "client", "Greenroom-Signature", "AAAA"); code != http.StatusUnauthorized || text != "" {
		t.Errorf("%d %s", code, text)
	}
}

// TestForwardSocket: messages go both ways over a socket to an actor of another engine, and each end hears with which code the other has closed it.
func TestForwardSocket(t *testing.T) {
	_, other, p, id := twoEngines(t, nil)
	for _, path := range []string{"/websocket/x", "/connect"} {
		for _, by := range []string{"client", "actor"} {
			ws := other.dial("/gateway/"+id+path+"?a=b", "rivet", "rivet_token.none")
			open := toActor[rp.SocketOpen](p)
			if got := open.Body.(rp.SocketOpen).Path; got != path+"?a=b" || ws.Subprotocol() != "rivet" {
				t.Errorf("%s over %s", got, ws.Subprotocol())
			}
			for i, size := range []int{1, 100 << 10} {
				text := strings.Repeat("x", size)
				must(t, ws.Write(t.Context(), websocket.MessageType(i+1), []byte(text)))
				m := toActor[rp.SocketMessage](p)
				b := m.Body.(rp.SocketMessage)
				if string(b.Data) != text || b.Binary != (i == 1) {
					t.Errorf("%d bytes, binary is %v", len(b.Data), b.Binary)
				}
				p.toClient(open.ID.Tunnel, b)
				kind, data, err := ws.Read(t.Context())
				if err != nil || string(data) != text || kind != websocket.MessageType(i+1) {
					t.Errorf("%v: %d bytes, %v", kind, len(data), err)
				}
				p.toClient(open.ID.Tunnel, rp.SocketAck{Index: m.ID.Index})
			}
			if by == "client" {
				must(t, ws.Close(4321, "bye"))
				if m := toActor[rp.ClientClose](p); m.Body.(rp.ClientClose).Code != rp.Some(uint16(4321)) {
					t.Errorf("%+v", m)
				}
				continue
			}
			p.toClient(open.ID.Tunnel, rp.ActorClose{Code: rp.Some(uint16(4322)), Reason: rp.Some("so long")})
			if code, reason := closed(t, ws); code != 4322 || reason != "so long" {
				t.Errorf("%d %s", code, reason)
			}
		}
	}
}

// TestForwardSocketEnds: a client hears that an engine has ended between it and its actor.
func TestForwardSocketEnds(t *testing.T) {
	t.Parallel() // it waits
	for name, ends := range map[string]struct {
		end    func(owner, other *rig)
		reason string
	}{
		"the actor's engine is killed": {func(owner, _ *rig) { owner.stop() }, "ws.downstream_closed"},
		"the actor's engine":           {func(owner, _ *rig) { must(owner, owner.engine.Close()) }, "guard.service_unavailable"},
		"the engine that was asked":    {func(_, other *rig) { must(other, other.engine.Close()) }, "guard.service_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			owner, other, p, id := twoEngines(t, nil)
			ws := other.dial("/gateway/"+id+"/connect", "rivet")
			p.toClient(toActor[rp.SocketOpen](p).ID.Tunnel, rp.SocketMessage{Data: []byte("hello")})
			if _, _, err := ws.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			ends.end(owner, other)
			if code, reason := closed(t, ws); code != websocket.StatusInternalError || reason != ends.reason {
				t.Errorf("%d %s", code, reason)
			}
		})
	}
}

// TestPlace: an actor that no engine has goes to one that has a runner for it, whichever is asked for it.
func TestPlace(t *testing.T) {
	t.Parallel() // it waits
	below := memkv.New()
	opts := engine.Options{}
	rigs := []*rig{member(t, below, opts, nil), member(t, below, opts, nil), member(t, below, opts, nil)}
	p := rigs[0].connect("default", "k")
	for i, r := range rigs {
		id := r.actor("counter", fmt.Sprint("key", i))
		eventually(t, "the runner has the actor", func() bool {
			code, text := r.call("GET", "/gateway/"+id+"/x", "")
			return code == 200 && text == "GET /x "
		})
		p.started(id)
		for _, other := range rigs {
			other.want(200, "GET /y", "GET", "/gateway/"+id+"/y", "")
		}
	}
}

// TestPlaceLater: a request that waits for a runner at one engine goes to another one as soon as that has one, from either.
func TestPlaceLater(t *testing.T) {
	below := memkv.New()
	a, b := member(t, below, engine.Options{}, nil), member(t, below, engine.Options{}, nil)
	id := a.actor("counter", "a")
	answers := make(chan string, 2)
	for _, r := range []*rig{a, b} {
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+"/gateway/"+id+"/x", nil)
			if err != nil {
				answers <- err.Error()
				return
			}
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				answers <- err.Error()
				return
			}
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				text = []byte(err.Error())
			}
			_ = answer.Body.Close()
			answers <- string(text)
		}()
	}
	b.connect("default", "k")
	for range 2 {
		if got := <-answers; got != "GET /x " {
			t.Error(got)
		}
	}
}

// TestGive: an actor whose runner has gone to another engine goes there, though it has sockets here. They end, and what came over them comes to the actor.
func TestGive(t *testing.T) {
	t.Parallel() // it waits
	for _, by := range []string{"message", "request", "socket"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			owner, other, p, id := twoEngines(t, nil)
			ws := owner.dial("/gateway/"+id+"/connect", "rivet")
			p.toClient(toActor[rp.SocketOpen](p).ID.Tunnel, rp.SocketMessage{Data: []byte("hello")})
			if _, _, err := ws.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			generation, _ := p.generation(id)
			p.event(rp.Checkpoint{Actor: id, Generation: generation}, rp.Intent(rp.IntentSleep))
			p.toldToStop(id)
			must(t, p.ws.CloseNow())
			<-p.ended
			eventually(t, "the runner is gone", func() bool {
				_, text := owner.call("GET", "/runners?name=default", "")
				return strings.Contains(text, `"runners":[]`)
			})
			if by != "message" { // that waits for the other engine
				must(t, ws.Write(t.Context(), websocket.MessageText, []byte("precious")))
				eventually(t, "the message is kept", func() bool { return owner.kept(id) > 0 })
			}
			q := other.connect("default", "l")
			switch by {
			case "message":
				eventually(t, "the socket is closed", func() bool { return ws.Write(t.Context(), websocket.MessageText, []byte("precious")) != nil })
			case "request":
				other.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
			case "socket":
				other.dial("/gateway/"+id+"/connect", "rivet")
			}
			q.started(id)
			if m := toActor[rp.SocketMessage](q); string(m.Body.(rp.SocketMessage).Data) != "precious" {
				t.Errorf("%+v", m)
			}
			if code, reason := closed(t, ws); code != websocket.StatusInternalError || reason != "guard.service_unavailable" {
				t.Errorf("%d %s", code, reason)
			}
		})
	}
}

// TestForwardOnce: an engine that hasn't got an actor says so to one that thinks it has, doesn't ask others, and that is over after a while.
func TestForwardOnce(t *testing.T) {
	t.Parallel() // it waits
	below := memkv.New()
	opts := engine.Options{ReadyTimeout: 300 * time.Millisecond}
	var asked [2]atomic.Int64
	lost := make(chan struct{})
	wrap := func(i int) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if len(r.Header["Greenroom-Signature"]) > 0 {
					asked[i].Add(1)
					select {
					case <-lost:
						w.Header().Set("Greenroom-Reason", "moved")
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					default:
					}
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	a, b := member(t, below, opts, wrap(0)), member(t, below, opts, wrap(1))
	p := b.connect("default", "k")
	id := b.actor("counter", "a")
	p.started(id)
	a.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
	close(lost)
	a.want(503, "actor_ready_timeout", "GET", "/gateway/"+id+"/x", "")
	if n := asked[1].Load(); n < 3 || n > 12 || asked[0].Load() > 0 {
		t.Errorf("b was asked %d times, and a %d times", n, asked[0].Load())
	}
	must(t, b.engine.Close()) // a thinks that it has the actor still
	a.want(503, "actor_ready_timeout", "GET", "/gateway/"+id+"/x", "")
}

// TestForwardLeaving: an actor whose engine ends is at another one, which has a runner for it, for what is asked of that one meanwhile.
func TestForwardLeaving(t *testing.T) {
	owner, other, p, id := twoEngines(t, nil)
	q := other.connect("default", "l")
	other.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
	p.mu.Lock()
	p.hold = true // it takes its time to stop
	p.mu.Unlock()
	down := make(chan error, 1)
	go func() { down <- owner.engine.Shutdown(t.Context()) }()
	at := p.toldToStop(id)
	answer := make(chan string, 1)
	go func() {
		_, text := other.call("GET", "/gateway/"+id+"/y", "")
		answer <- text
	}()
	p.event(at, rp.Stopped{})
	if text := <-answer; text != "GET /y " {
		t.Error(text)
	}
	q.started(id)
	must(t, <-down)
}

// TestDead: the actor of an engine that has died is another one's when its lease is over.
func TestDead(t *testing.T) {
	t.Parallel() // it waits
	below, opts := memkv.New(), engine.Options{LostThreshold: time.Second}
	faults := faultkv.New(below)
	owner, other := member(t, faults, opts, nil), member(t, below, opts, nil)
	p := owner.connect("default", "k")
	id := owner.actor("counter", "a")
	p.started(id)
	other.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
	faults.Tear(0)
	owner.stop()
	q := other.connect("default", "l")
	other.want(503, "service_unavailable", "GET", "/gateway/"+id+"/x", "") // its lease holds
	eventually(t, "its lease ends", func() bool {
		code, _ := other.call("GET", "/gateway/"+id+"/x", "")
		return code == 200
	})
	q.started(id)
	_ = owner.engine.Close() // it can't say that it ends
}
