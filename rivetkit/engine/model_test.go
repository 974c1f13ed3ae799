package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A model is an engine with programs that behave as RivetKit's do, and clients, to which things happen at random. Its programs and clients
// check what the engine promises: an actor has one generation at a time that can save, finds what it was told is stored, and gets
// each message in its order; nothing starts an actor whose end was acknowledged; and each request ends.
type model struct {
	testing.TB
	rnd     *rand.Rand
	store   kv.Engine
	version rp.Version // of all programs

	mu      sync.Mutex
	rig     *rig // nil while the engine is down
	faults  *faultkv.Engine
	actors  map[string]*modelActor // by id
	keys    map[string]string      // id by key
	progs   []*modelProgram
	sockets []*modelSocket
	begun   time.Time
	faulty  bool // the store of this life of the engine fails now and then
	trace   []string
}

// A modelActor is what programs and clients know of an actor.
type modelActor struct {
	key         string
	acked, sent int // of its counter
	gone        bool
	alarm       time.Time
	goneAt      time.Time // since when gone is set
}

// A modelSocket is a client's WebSocket that hibernates.
type modelSocket struct {
	ws                *websocket.Conn
	open              context.Context
	actor             string
	tunnel            rp.TunnelID
	sent, solid, kept int  // messages that were sent, that are stored, and that the actor has
	ended             bool // by the client
	refused           bool // by the actor
}

// note adds a line to the trace.
func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%8.3f ", time.Since(m.begun).Seconds())+fmt.Sprintf(format, args...))
}

// wrong reports what the engine has done wrong.
func (m *model) wrong(format string, args ...any) {
	m.note("WRONG: "+format, args...)
	m.Errorf(format, args...)
}

// up opens the engine.
func (m *model) up() {
	f := faultkv.New(m.store)
	r := &rig{TB: m.TB, kv: f, opts: quiet(), piped: true}
	var err error
	r.engine, err = engine.Open(m.Context(), f, &r.opts)
	must(m, err)
	r.serve()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rig, m.faults, m.faulty = r, f, m.rnd.IntN(3) == 0
	if m.rnd.IntN(3) == 0 {
		f.Delay(time.Duration(m.rnd.IntN(200)) * time.Millisecond)
	}
	m.note("engine up (faulty: %v)", m.faulty)
}

// down ends the engine in one of three ways.
func (m *model) down(how int) {
	m.mu.Lock()
	r, f := m.rig, m.faults
	m.rig = nil
	m.note("engine down %d", how)
	m.mu.Unlock()
	var err error
	switch how {
	case 0:
		err = r.engine.Close()
	case 1:
		ctx, cancel := context.WithTimeout(m.Context(), 10*time.Second)
		defer cancel()
		err = r.engine.Shutdown(ctx)
	default:
		f.Tear(0)
		_ = r.engine.Close()
	}
	if err != nil && !m.faulty {
		m.wrong("close: %v", err)
	}
	r.stop()
	m.mu.Lock()
	m.note("engine is down")
	m.mu.Unlock()
}

// request sends a request of a client, which must end.
func (m *model) request(method, path, body string) (status int, text string) {
	m.mu.Lock()
	r := m.rig
	m.mu.Unlock()
	if r == nil {
		return 0, ""
	}
	ctx, cancel := context.WithTimeout(m.Context(), 6*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	must(m, err)
	resp, err := r.client.Do(req)
	if err == nil {
		b := make([]byte, 4096)
		n, _ := resp.Body.Read(b)
		_ = resp.Body.Close()
		status, text = resp.StatusCode, string(b[:n])
	}
	if ctx.Err() != nil {
		m.wrong("%s %s hasn't ended", method, path)
	}
	return status, text
}

// make makes the actor of a key, or finds it.
func (m *model) make(key string) (id string) {
	m.mu.Lock()
	was := m.keys[key]
	gone := was != "" && m.actors[was].gone // before the request begins
	m.mu.Unlock()
	status, text := m.request("PUT", "/actors", fmt.Sprintf(`{"name":"counter","key":%q,"runner_name_selector":"default"}`, key))
	if status != 200 {
		return ""
	}
	_, rest, _ := strings.Cut(text, `"actor_id":"`)
	id, _, _ = strings.Cut(rest, `"`)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.actors[id] == nil {
		m.actors[id] = &modelActor{key: key}
	}
	if gone && id == was {
		m.wrong("%s is returned for %s, and was destroyed", id[:4], key)
	}
	m.keys[key] = id
	return id
}

// inc has an actor count.
func (m *model) inc(id string) bool {
	status, text := m.request("POST", "/gateway/"+id+"/inc", "")
	if status != 200 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, err := strconv.Atoi(text); err != nil || n > m.actors[id].acked {
		m.wrong("%s answers %q, acknowledged %d", id[:4], text, m.actors[id].acked)
	}
	return true
}

// connect opens a socket.
func (m *model) connect(id string) {
	m.mu.Lock()
	r := m.rig
	m.mu.Unlock()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.Context(), 6*time.Minute)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, "ws://127.0.0.1/gateway/"+id+"/connect", &websocket.DialOptions{Subprotocols: []string{"rivet"}, HTTPClient: r.client})
	if err != nil {
		return
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	_, b, err := ws.Read(ctx)
	if ctx.Err() != nil {
		m.wrong("a socket of %s hasn't come", id[:4])
	}
	if err != nil {
		_ = ws.CloseNow()
		return
	}
	s := &modelSocket{ws: ws, actor: id, open: ws.CloseRead(m.Context())}
	_, _ = fmt.Sscanf(string(b[:8]), "%x", (*hexBytes)(&s.tunnel.Gateway))
	_, _ = fmt.Sscanf(string(b[8:]), "%x", (*hexBytes)(&s.tunnel.Request))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("socket %s of %s", s.tunnel, id[:4])
	m.sockets = append(m.sockets, s)
}

type hexBytes [4]byte

// Scan implements fmt.Scanner.
func (h *hexBytes) Scan(s fmt.ScanState, _ rune) error {
	tok, err := s.Token(true, nil)
	if err == nil {
		for i := range h {
			n, _ := strconv.ParseUint(string(tok[2*i:2*i+2]), 16, 8)
			h[i] = byte(n)
		}
	}
	return err
}

// send sends messages over a socket.
func (m *model) send(s *modelSocket) {
	if s.open.Err() != nil || s.ended {
		return
	}
	ctx, cancel := context.WithTimeout(s.open, 5*time.Second)
	defer cancel()
	if s.ws.Write(ctx, websocket.MessageText, []byte(fmt.Sprint(s.sent+1))) == nil {
		s.sent++
	}
}

// step does one thing, at random.
func (m *model) step() {
	m.mu.Lock()
	key := string(rune('a' + m.rnd.IntN(4)))
	id, n := m.keys[key], m.rnd.IntN(100)
	m.mu.Unlock()
	switch {
	case n < 10:
		go m.make(key)
	case n < 40 && id != "":
		go m.inc(id)
	case n < 50 && id != "":
		go m.connect(id)
	case n < 80:
		m.useSocket(n < 75)
	case n < 82 && id != "":
		go m.destroy(id)
	case n < 92:
		m.useProgram(n)
	case n < 94:
		m.fail()
	case n < 97:
		m.down(m.rnd.IntN(3))
		pass(time.Duration(m.rnd.IntN(3000)) * time.Millisecond)
		if m.rnd.IntN(5) == 0 {
			pass(20 * time.Second)
		}
		m.up()
	default:
		pass(time.Duration(m.rnd.IntN(10000)) * time.Millisecond)
	}
}

// useSocket sends a message over one of the sockets, or closes it.
func (m *model) useSocket(send bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sockets) == 0 {
		return
	}
	s := m.sockets[len(m.sockets)-1-m.rnd.IntN(min(4, len(m.sockets)))]
	switch {
	case s.ended || s.open.Err() != nil:
	case send:
		m.mu.Unlock()
		m.send(s)
		m.mu.Lock()
	default:
		s.ended = true
		go func() { _ = s.ws.Close(websocket.StatusNormalClosure, "") }()
	}
}

// destroy ends an actor.
func (m *model) destroy(id string) {
	status, _ := m.request("DELETE", "/actors/"+id, "")
	m.mu.Lock()
	defer m.mu.Unlock()
	if status == 200 {
		m.note("%s is destroyed", id[:4])
		m.actors[id].gone, m.actors[id].goneAt = true, time.Now()
	}
}

// useProgram disconnects a program, kills it and starts another one, or starts one more.
func (m *model) useProgram(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := fmt.Sprint("p", len(m.progs))
	live := slices.DeleteFunc(slices.Clone(m.progs), func(p *modelProgram) bool { return !p.alive })
	switch p := live[m.rnd.IntN(len(live))]; {
	case n < 88 && p.conn != nil:
		m.note("%s: disconnect", p.key)
		_ = p.conn.ws.CloseNow()
	case n < 91:
		m.note("%s is killed", p.key)
		p.kill()
		if m.rnd.IntN(2) == 0 {
			name = p.key
		}
		m.program(name)
	case m.rnd.IntN(2) == 0:
		m.program(name)
	}
}

// fail lets the store fail, if this is a life of the engine for that.
func (m *model) fail() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.faulty {
		return
	}
	points := []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.AfterApply, faultkv.BeforeSync, faultkv.BeforeGet, faultkv.BeforeScan}
	rule := faultkv.Rule{Point: points[m.rnd.IntN(len(points))], Skip: m.rnd.IntN(5), Times: 1 + m.rnd.IntN(3)}
	if rule.Point == faultkv.AfterApply {
		rule.Err = kv.ErrUnknownOutcome
	}
	m.note("fault %+v", rule)
	m.faults.Fail(rule)
}

// solid notes what is stored of sockets that are open, as nothing has happened for a while.
func (m *model) solid() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sockets {
		if s.open.Err() == nil && !s.ended {
			s.solid = s.sent
		}
	}
}

// TestModel lets things happen at random to an engine, programs and clients. GREENROOM_SEED chooses one run, and prints what happens.
func TestModel(t *testing.T) {
	first, runs := uint64(1), testkit.Pick(10, 20, 1000)
	if text := os.Getenv("GREENROOM_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		must(t, err)
		first, runs = n, 1
	}
	for seed := first; seed < first+uint64(runs); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
		})
	}
}

func runModel(t *testing.T, seed uint64) {
	m := &model{
		TB: t, rnd: rand.New(rand.NewPCG(seed, 0)), version: []rp.Version{rp.V7, rp.Envoy8}[seed%2], store: memkv.New(), begun: time.Now(), actors: map[string]*modelActor{}, keys: map[string]string{},
	}
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("GREENROOM_SEED") != "" {
			t.Logf("%s", strings.Join(m.trace, "\n"))
		}
	})
	m.up()
	m.mu.Lock()
	m.program("p0")
	m.mu.Unlock()
	pass(time.Second)
	for range 200 {
		m.step()
		if m.rnd.IntN(2) == 0 {
			pass(time.Duration(m.rnd.IntN(2000)) * time.Millisecond)
		}
		if m.rnd.IntN(10) == 0 {
			pass(3 * time.Second)
			m.solid()
		}
		if t.Failed() {
			break
		}
	}
	if !t.Failed() {
		m.settle()
	}
	m.mu.Lock()
	for _, p := range m.progs {
		p.kill()
	}
	m.mu.Unlock()
	m.down(0)
	for _, s := range m.sockets {
		_ = s.ws.CloseNow()
	}
	pass(10 * time.Minute)
	must(t, m.store.Close())
}

// settle waits until all is quiet, and looks whether everything was done.
func (m *model) settle() {
	m.mu.Lock()
	m.note("settle")
	m.faults.Heal()
	m.faulty = false
	m.mu.Unlock()
	pass(2 * time.Minute)
	m.mu.Lock()
	ids := slices.Sorted(maps.Keys(m.actors))
	m.mu.Unlock()
	for _, id := range ids {
		if a := m.actors[id]; a.gone {
			if status, _ := m.request("GET", "/gateway/"+id+"/x", ""); status != 400 {
				m.wrong("%s is destroyed, and answers %d", id[:4], status)
			}
		} else if !m.inc(id) && m.keys[a.key] == id && !a.gone {
			if got := m.make(a.key); got == id {
				m.wrong("%s doesn't answer", id[:4])
			}
		}
	}
	pass(2 * time.Minute)
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, a := range m.actors {
		if !a.gone && !a.alarm.IsZero() && time.Since(a.alarm) > time.Minute && m.keys[a.key] == id {
			m.wrong("%s isn't started by its alarm", id[:4])
		}
	}
	for _, s := range m.sockets {
		if !m.actors[s.actor].gone && m.keys[m.actors[s.actor].key] == s.actor && !s.refused && s.kept < s.solid {
			m.wrong("%s of %s: %d messages have come of %d (sent %d, ended %v, open %v)", s.tunnel, s.actor[:4], s.kept, s.solid, s.sent, s.ended, s.open.Err())
		}
	}
}
