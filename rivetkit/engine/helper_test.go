package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// patience is how long a test waits for what must happen.
var patience = testkit.Patience(2 * time.Second)

// must fails the test if err is not nil.
var must = testkit.Must

// A rig is an engine that is served.
type rig struct {
	testing.TB
	kv     kv.Engine
	opts   engine.Options
	engine *engine.Engine
	piped  bool         // it is served over pipes, without a network
	client *http.Client // of what isn't a runner, and of runners
	url    string
	stop   func()
	open   atomic.Int64 // connections that the server still holds open
	writes writeLog
	dead   atomic.Bool // the process has ended: what is to be done ends at once
}

// A writeLog records what the server writes to its connections, in order, as long as it is on.
type writeLog struct {
	mu   sync.Mutex
	on   bool
	list []string
}

func (l *writeLog) add(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on {
		l.list = append(l.list, string(b))
	}
}

// take returns the list, and turns the log on or off.
func (l *writeLog) take(on bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.on, l.list = on, nil
	return list
}

// A countedListener counts the connections that are accepted and not closed yet, and logs what is written to them.
type countedListener struct {
	net.Listener
	rig *rig
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.rig.open.Add(1)
	return &countedConn{Conn: c, rig: l.rig}, nil
}

type countedConn struct {
	net.Conn
	rig  *rig
	once sync.Once
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.rig.writes.add(b)
	return c.Conn.Write(b)
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.rig.open.Add(-1) })
	return c.Conn.Close()
}

func newRig(t testing.TB, opts engine.Options) *rig {
	t.Helper()
	r := &rig{TB: t, kv: memkv.New(), opts: opts}
	r.opts.Logger = slog.New(slog.DiscardHandler)
	r.start()
	t.Cleanup(func() {
		r.close()
		must(t, r.kv.Close())
	})
	return r
}

func (r *rig) start() {
	r.Helper()
	var err error
	r.engine, err = engine.Open(r.Context(), r.kv, &r.opts)
	must(r, err)
	r.serve()
}

// serve serves the engine.
func (r *rig) serve() {
	if r.piped {
		r.client, r.stop = servePipes(r.engine)
		r.url = "http://127.0.0.1"
		return
	}
	s := httptest.NewUnstartedServer(r.engine)
	s.Listener = countedListener{s.Listener, r}
	s.Start()
	r.client, r.url = http.DefaultClient, s.URL
	r.stop = func() {
		s.CloseClientConnections()
		s.Close()
	}
}

func (r *rig) close() {
	r.Helper()
	must(r, r.engine.Close())
	r.stop()
}

// reopen ends the engine, and opens it anew on the same store.
func (r *rig) reopen() {
	r.Helper()
	r.close()
	r.start()
}

// call sends a request and returns the answer.
func (r *rig) call(method, path, body string, header ...string) (int, string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	must(r, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	must(r, err)
	b, err := io.ReadAll(resp.Body)
	must(r, err)
	must(r, resp.Body.Close())
	return resp.StatusCode, string(b)
}

// want is call, whose status and text must be these.
func (r *rig) want(status int, text, method, path, body string, header ...string) string {
	r.Helper()
	code, got := r.call(method, path, body, header...)
	if code != status || !strings.Contains(got, text) {
		r.Fatalf("%s %s: %d %s, not %d %s", method, path, code, got, status, text)
	}
	return got
}

// actor makes an actor, or finds it, and returns its id.
func (r *rig) actor(name, key string) string {
	r.Helper()
	var out struct {
		Actor struct {
			ID string `json:"actor_id"`
		}
	}
	text := r.want(200, "actor_id", "PUT", "/actors", fmt.Sprintf(`{"name":%q,"key":%q,"runner_name_selector":"default"}`, name, key))
	must(r, json.Unmarshal([]byte(text), &out))
	return out.Actor.ID
}

// dial opens a WebSocket.
func (r *rig) dial(path string, protocols ...string) *websocket.Conn {
	r.Helper()
	ws, resp, err := websocket.Dial(r.Context(), "ws"+strings.TrimPrefix(r.url, "http")+path, &websocket.DialOptions{
		Subprotocols: protocols, HTTPClient: r.client,
	})
	must(r, err)
	if resp.Body != nil {
		must(r, resp.Body.Close())
	}
	ws.SetReadLimit(64 << 20)
	r.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// closed returns the code and the reason with which a WebSocket ends.
func closed(t testing.TB, ws *websocket.Conn) (websocket.StatusCode, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, _, err := ws.Read(ctx)
		var c websocket.CloseError
		switch {
		case err == nil:
		case errorsAs(err, &c):
			return c.Code, c.Reason
		default:
			return -1, err.Error()
		}
	}
}

// A program is a runner, or an envoy, as the engine sees it. Whatever the engine says is in heard. It starts and stops actors as it is told to,
// and answers requests to those that it has with their method, path and body, unless it is told to hold.
type program struct {
	*rig
	ws      *websocket.Conn
	key     string
	version rp.Version

	mu      sync.Mutex
	heard   []rp.ToRunner
	more    chan struct{}
	hold    bool                              // it answers nothing
	deaf    bool                              // it doesn't read the next message, nor any other
	pause   time.Duration                     // how long it takes for each message
	reply   func(rp.ToActor, rp.RequestStart) // answers requests; nil for as it is said above
	events  map[string]int64                  // index of the next event, by actor and generation
	has     map[string]uint32                 // the generations of its actors
	id      string                            // as the engine has called it
	unacked []rp.Event                        // of the actors that it has
	indices map[rp.TunnelID]uint16
	kvs     uint32
	ended   chan struct{}
}

// connect connects a program of a name and a key.
func (r *rig) connect(name, key string) *program {
	r.Helper()
	p := r.program(key, rp.V7)
	p.init(name)
	return p
}

// introduction is what the program says first. An envoy has said its name in its address.
func (p *program) introduction(name string) rp.RunnerInit {
	i := rp.RunnerInit{ActorNames: []rp.ActorName{{Name: "counter", Metadata: "{}"}}}
	if !p.isEnvoy() {
		i.Name, i.Version, i.TotalSlots = name, 1, 100
	}
	return i
}

// init introduces the program.
func (p *program) init(name string) {
	p.Helper()
	p.say(p.introduction(name))
	heardOf[rp.EngineInit](p, func(rp.EngineInit) bool { return true })
}

// reconnect connects a program anew whose connection has ended. It has its actors, unless the engine calls it by another name.
func (r *rig) reconnect(name, key string, old *program) *program {
	r.Helper()
	<-old.ended
	p := r.newProgram(key, old.version)
	p.has, p.id, p.events, p.unacked = old.has, old.id, old.events, old.unacked
	p.comes()
	p.init(name)
	return p
}

// program is connect, but says nothing.
func (r *rig) program(key string, v rp.Version) *program {
	r.Helper()
	p := r.newProgram(key, v)
	p.comes()
	return p
}

// newProgram returns a program that isn't connected.
func (r *rig) newProgram(key string, v rp.Version) *program {
	return &program{
		rig: r, key: key, version: v, more: make(chan struct{}, 1), events: map[string]int64{}, indices: map[rp.TunnelID]uint16{}, ended: make(chan struct{}),
		has: map[string]uint32{},
	}
}

// comes connects the program, which may be spoken to from then on.
func (p *program) comes() {
	p.Helper()
	p.ws = p.dial(p.path(), "rivet", "rivet_token.none")
	go p.listen()
}

// path is where the program connects.
func (p *program) path() string {
	path := "/runners/connect?runner_key="
	if p.isEnvoy() {
		path = "/envoys/connect?version=1&pool_name=default&envoy_key="
	}
	return path + p.key + "&namespace=default&protocol_version=" + p.version.String()
}

func (p *program) say(m rp.ToEngine) {
	p.Helper()
	b, err := rp.EngineBound.Append(nil, p.version, m)
	must(p, err)
	if err := p.ws.Write(p.Context(), websocket.MessageBinary, b); err != nil {
		p.Logf("the runner can't say %T: %v", m, err)
	}
}

func (p *program) listen() {
	defer close(p.ended)
	for {
		_, b, err := p.ws.Read(context.Background())
		if err != nil {
			return
		}
		m, err := rp.RunnerBound.Decode(p.version, b)
		if err != nil {
			p.Errorf("the engine says %x: %v", b, err)
			return
		}
		p.mu.Lock()
		hold, deaf, pause := p.hold, p.deaf, p.pause
		p.mu.Unlock()
		if pause > 0 {
			<-time.After(pause)
		}
		if deaf {
			return
		}
		if !hold {
			p.answer(m) // before the test hears of it: what the test says comes behind that
		}
		p.mu.Lock()
		p.heard = append(p.heard, m)
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
}

// answer does what a program does.
func (p *program) answer(m rp.ToRunner) {
	switch m := m.(type) {
	case rp.EngineInit:
		p.mu.Lock()
		if p.id != m.RunnerID {
			p.id, p.unacked = m.RunnerID, nil
			clear(p.has)
		}
		again := slices.Clone(p.unacked)
		p.mu.Unlock()
		if len(again) > 0 {
			p.say(rp.Events(again))
		}
	case rp.AckEvents:
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, at := range m {
			p.unacked = slices.DeleteFunc(p.unacked, func(e rp.Event) bool {
				return e.Checkpoint.Actor == at.Actor && e.Checkpoint.Index <= at.Index
			})
		}
	case rp.Ping:
		p.say(rp.Pong(m))
	case rp.Commands:
		for _, c := range m {
			p.say(rp.AckCommands{c.Checkpoint})
			p.command(c)
		}
	case rp.ToActor:
		switch b := m.Body.(type) {
		case rp.RequestStart:
			if _, ok := p.generation(b.Actor); !ok {
				return
			}
			p.mu.Lock()
			reply := p.reply
			p.mu.Unlock()
			if reply != nil {
				reply(m, b)
				return
			}
			p.toClient(m.ID.Tunnel, rp.ResponseStart{
				Status: 200, Headers: []rp.Header{{Name: "x-from", Value: "actor"}}, Body: fmt.Appendf(nil, "%s %s %s", b.Method, b.Path, b.Body),
			})
		case rp.SocketOpen:
			p.toClient(m.ID.Tunnel, rp.SocketAccept{CanHibernate: strings.HasPrefix(b.Path, "/connect")})
		}
	}
}

// command starts or stops an actor.
func (p *program) command(c rp.Command) {
	at := c.Checkpoint
	old, has := p.generation(at.Actor)
	switch _, stop := c.Body.(rp.StopActor); {
	case !stop && has:
		p.Errorf("generation %d of %s is started beside %d", at.Generation, at.Actor, old)
	case !stop:
		p.mu.Lock()
		p.has[at.Actor] = at.Generation
		p.mu.Unlock()
		p.event(at, rp.Running{})
		if p.isEnvoy() {
			for _, t := range c.Body.(rp.StartActor).Hibernating {
				p.toClient(t, rp.SocketAccept{CanHibernate: true})
			}
		}
	case has && old == at.Generation:
		p.event(at, rp.Stopped{})
	}
}

// generation returns the generation of an actor that the program has.
func (p *program) generation(id string) (generation uint32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	generation, ok = p.has[id]
	return generation, ok
}

// event says that something has happened to an actor.
func (p *program) event(at rp.Checkpoint, body rp.EventBody) {
	p.Helper()
	p.mu.Lock()
	name := fmt.Sprintf("%s/%d", at.Actor, at.Generation)
	at.Index = p.events[name]
	p.events[name]++
	e := rp.Event{Checkpoint: at, Body: body}
	p.unacked = append(p.unacked, e)
	if _, ok := body.(rp.Stopped); ok {
		delete(p.has, at.Actor)
		p.unacked = slices.DeleteFunc(p.unacked, func(e rp.Event) bool { return e.Checkpoint.Actor == at.Actor })
	}
	p.mu.Unlock()
	p.say(rp.Events{e})
}

func (p *program) toClient(id rp.TunnelID, body rp.FromActorBody) {
	p.mu.Lock()
	index := p.indices[id]
	p.indices[id]++
	p.mu.Unlock()
	p.say(rp.FromActor{ID: rp.MessageID{Tunnel: id, Index: index}, Body: body})
}

// heardOf returns the first message of a kind that is the one, and waits for it. It is forgotten then. An engine whose process has ended may say nothing: then
// it is the zero one.
func heardOf[M rp.ToRunner](p *program, is func(M) bool) M {
	p.Helper()
	timeout := time.After(patience)
	for {
		p.mu.Lock()
		for i, m := range p.heard {
			if m, ok := m.(M); ok && is(m) {
				p.heard = slices.Delete(p.heard, i, i+1)
				p.mu.Unlock()
				return m
			}
		}
		p.mu.Unlock()
		select {
		case <-p.more:
		case <-timeout:
			if p.dead.Load() {
				return *new(M)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.Fatalf("the engine hasn't said a %T; it has said %+v", *new(M), p.heard)
		}
	}
}

// started returns the command that starts an actor.
func (p *program) started(id string) (rp.Checkpoint, rp.StartActor) {
	p.Helper()
	c := heardOf(p, func(c rp.Commands) bool {
		_, ok := c[0].Body.(rp.StartActor)
		return ok && c[0].Checkpoint.Actor == id
	})
	return c[0].Checkpoint, c[0].Body.(rp.StartActor)
}

// toldToStop waits until the engine wants an actor to be stopped.
func (p *program) toldToStop(id string) rp.Checkpoint {
	p.Helper()
	return heardOf(p, func(c rp.Commands) bool {
		_, ok := c[0].Body.(rp.StopActor)
		return ok && c[0].Checkpoint.Actor == id
	})[0].Checkpoint
}

// keys asks for keys of an actor, and returns the answer.
func (p *program) keys(id string, body rp.KVRequestBody) rp.KVResponseBody {
	p.Helper()
	p.mu.Lock()
	p.kvs++
	n := p.kvs
	p.mu.Unlock()
	p.say(rp.KVRequest{Actor: id, ID: n, Body: body})
	return heardOf(p, func(r rp.KVResponse) bool { return r.ID == n }).Body
}

// put stores pairs of keys and values.
func (p *program) put(id string, pairs ...string) {
	p.Helper()
	var put rp.KVPut
	for i := 0; i < len(pairs); i += 2 {
		put.Pairs = append(put.Pairs, rp.KVPair{Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	if got := p.keys(id, put); got != rp.KVResponseBody(rp.KVPutDone{}) {
		p.Fatalf("put: %+v", got)
	}
}

// list returns what a query finds, as text.
func (p *program) list(id string, q rp.KVList) string {
	p.Helper()
	got, ok := p.keys(id, q).(rp.KVListed)
	if !ok {
		p.Fatalf("list: %+v", got)
	}
	var b bytes.Buffer
	for _, e := range got.Entries {
		fmt.Fprintf(&b, "%s=%s ", e.Key, e.Value)
	}
	return strings.TrimSpace(b.String())
}

// eventually waits until ok says so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	timeout, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s: it doesn't happen", what)
		}
	}
}
