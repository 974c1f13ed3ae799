package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A script is one runner and one client, which do the same things in each run, in a bubble of testing/synctest, whatever the engine
// answers. What the engine acknowledges is in actors and namespace.
type script struct {
	*rig
	faults  *faultkv.Engine
	p       *program
	version rp.Version // of p
	lives   *program   // which connects, if it isn't nil: that of a script whose engine has ended

	actors    map[string]*known // by their keys
	namespace bool              // it was made
	ws        *websocket.Conn
	open      context.Context // ends with ws
	tunnel    rp.TunnelID     // of ws
	acked     map[rp.TunnelID]uint16
	failed    map[rp.TunnelID]bool // its client was told that it has ended
}

// A known actor is what the client and the runner know of an actor.
type known struct {
	id     string
	states []map[string]string // which keys and pages it may have
	head   uint64              // of its database, as its program knows it
	wakeBy time.Time           // when it must be started; the zero time for never
	doomed bool                // its end was asked for
	gone   bool                // its end was acknowledged
}

// quiet are options of an engine whose runner and client are the script's.
func quiet() engine.Options { return engine.Options{Logger: slog.New(slog.DiscardHandler)} }

// newScript returns a script over e. prepare, which may be nil, is called before the engine is opened.
func newScript(t testing.TB, e kv.Engine) *script {
	f := faultkv.New(e)
	return &script{
		rig: &rig{TB: t, kv: f, opts: quiet(), piped: true}, faults: f, version: rp.V7,
		actors: map[string]*known{}, acked: map[rp.TunnelID]uint16{}, failed: map[rp.TunnelID]bool{},
	}
}

// begin opens the engine, which may take a second attempt, and connects the runner.
func (s *script) begin() bool {
	var err error
	for range 2 {
		if s.engine, err = engine.Open(s.Context(), s.kv, &s.opts); err == nil {
			break
		}
	}
	if err != nil {
		if !s.dead.Load() {
			s.Errorf("open: %v", err)
		}
		return false
	}
	s.serve()
	if s.lives != nil {
		s.p = s.reconnect("default", s.lives.key, s.lives)
	} else {
		s.p = s.program(fmt.Sprintf("k%p", s), s.version)
		s.p.init("default")
	}
	return true
}

// end ends the engine, whether it can write or not.
func (s *script) end() {
	if s.engine == nil {
		return
	}
	if err := s.engine.Close(); err != nil && !s.dead.Load() {
		s.Errorf("close: %v", err)
	}
	s.stop()
	<-s.p.ended
}

// kill ends the process.
func (s *script) kill() {
	s.dead.Store(true)
	s.faults.Tear(0)
}

// killAt ends the process before an operation, when n that count are done. If the store is a Server, it crashes with it. hit reports
// whether there were so many.
func (s *script) killAt(n int, counts func(faultkv.Op) bool) (hit func() bool) {
	var count atomic.Int64
	s.faults.Hook(func(op faultkv.Op) error {
		if counts(op) && count.Add(1) == int64(n)+1 {
			s.dead.Store(true)
			if server, ok := s.faults.Unwrap().(*faultkv.Server); ok {
				server.Crash(0)
			}
		}
		if s.dead.Load() {
			return faultkv.ErrTorn
		}
		return nil
	})
	return func() bool { return count.Load() > int64(n) }
}

// run does everything.
func (s *script) run() {
	if !s.begin() {
		return
	}
	for _, step := range []func(){
		s.makeNamespace,
		func() { s.create("kept") },
		s.keys,
		s.pages,
		s.alarm,
		func() { s.sleep("kept", 0); s.awake("kept") },
		s.messages,
		func() { s.create("doomed"); s.put("doomed", "\x04a", "1"); s.destroy("doomed") },
		func() { s.create("tired"); s.awake("tired"); s.sleep("tired", time.Hour); s.destroy("tired") },
		func() { s.create("ended"); s.put("ended", "\x04a", "1"); s.leave("ended") },
	} {
		if step(); s.dead.Load() {
			break
		}
		synctest.Wait()
	}
}

// pass lets a time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// until waits until ok, and returns false if the process ends before that.
func (s *script) until(what string, ok func() bool) bool {
	s.Helper()
	for start := time.Now(); ; pass(100 * time.Millisecond) {
		synctest.Wait()
		switch {
		case ok():
			return true
		case s.dead.Load():
			return false
		case time.Since(start) > patience:
			s.Errorf("%s: it doesn't happen", what)
			s.dead.Store(true)
			return false
		}
	}
}

// ask sends a request again and again until the answer is one of 200, or one that contains or, and returns that. An
// error must say what it is.
func (s *script) ask(method, path, body, or string) (text string, ok bool) {
	s.Helper()
	ok = s.until(method+" "+path, func() bool {
		var code int
		code, text = s.call(method, path, body)
		var out struct{ Group, Code, Message string }
		if code == http.StatusOK || or != "" && strings.Contains(text, or) {
			return true
		}
		if err := json.Unmarshal([]byte(text), &out); code < 400 || err != nil || out.Group == "" || out.Code == "" {
			s.Errorf("%s %s: %d %s", method, path, code, text)
		}
		return false
	})
	return text, ok
}

func (s *script) makeNamespace() {
	_, s.namespace = s.ask("POST", "/namespaces", `{"name":"n"}`, "")
}

// create makes an actor.
func (s *script) create(key string) {
	var out struct {
		Actor struct {
			ID string `json:"actor_id"`
		}
	}
	text, _ := s.ask("PUT", "/actors", fmt.Sprintf(`{"name":"counter","key":%q,"runner_name_selector":"default"}`, key), "")
	if json.Unmarshal([]byte(text), &out) == nil && out.Actor.ID != "" {
		s.actors[key] = &known{id: out.Actor.ID, states: []map[string]string{{}}, wakeBy: time.Now()}
		s.starts(key)
	}
}

// awake wakes an actor with a request, and returns its place in the runner.
func (s *script) awake(key string) (at rp.Checkpoint) {
	s.Helper()
	a := s.actors[key]
	if s.dead.Load() {
		return at
	}
	text, ok := s.ask("GET", "/gateway/"+a.id+"/", "", "not_found")
	if !ok {
		return at
	}
	if strings.Contains(text, "not_found") && !a.doomed {
		s.Errorf("%s isn't found", key)
	}
	a.wakeBy = time.Now()
	at, _ = s.last(a.id)
	return at
}

// heardSince returns what the runner has heard, but for the first n.
func (s *script) heardSince(n int) []rp.ToRunner {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return slices.Clone(s.p.heard[n:])
}

// last returns the generation of an actor that the runner has, or had last, and whether it has it.
func (s *script) last(id string) (at rp.Checkpoint, has bool) {
	for _, m := range s.heardSince(0) {
		list, _ := m.(rp.Commands)
		for _, c := range list {
			if c.Checkpoint.Actor == id {
				at = c.Checkpoint
			}
		}
	}
	generation, has := s.p.generation(id)
	if has {
		at = rp.Checkpoint{Actor: id, Generation: generation}
	}
	return at, has
}

// answer says m with a new number, and returns the answer, which is the one with that number. ok is false at the end of the process.
func answer[M rp.ToRunner](s *script, m func(n uint32) rp.ToEngine, is func(M, uint32) bool) (a M, ok bool) {
	s.Helper()
	s.p.kvs++
	n := s.p.kvs
	said := m(n)
	s.p.say(said)
	s.until(fmt.Sprintf("answer to %T", said), func() bool {
		for _, m := range s.heardSince(0) {
			if m, is1 := m.(M); is1 && is(m, n) {
				a, ok = m, true
			}
		}
		return ok
	})
	return a, ok
}

// request asks for keys of an actor, and returns the answer, or nil at the end of the process.
func (s *script) request(id string, body rp.KVRequestBody) rp.KVResponseBody {
	s.Helper()
	r, _ := answer(s, func(n uint32) rp.ToEngine { return rp.KVRequest{Actor: id, ID: n, Body: body} }, func(r rp.KVResponse, n uint32) bool { return r.ID == n })
	return r.Body
}

// ask asks about the database of an actor.
func ask[T any](s *script, m func(n uint32) rp.ToEngine) (T, *rp.SQLiteError) {
	s.Helper()
	r, ok := answer(s, m, func(r rp.Reply[T], n uint32) bool { return r.ID == n })
	if !ok {
		r.Err = &rp.SQLiteError{Code: "dead"}
	}
	return r.Result, r.Err
}

// change changes keys of an actor, which apply does too.
func (s *script) change(key string, body rp.KVRequestBody, apply func(map[string]string)) {
	s.Helper()
	s.changeBy(key, func(a *known) bool {
		switch s.request(a.id, body).(type) {
		case nil, rp.KVError:
			return false
		}
		return true
	}, apply)
}

// changeBy changes what an actor has with do, and apply does the same. If do says that it was refused, it is done whole or not at all.
func (s *script) changeBy(key string, do func(a *known) bool, apply func(map[string]string)) {
	s.Helper()
	if s.awake(key); s.dead.Load() {
		return
	}
	a := s.actors[key]
	var next []map[string]string
	for _, state := range a.states {
		state = maps.Clone(state)
		apply(state)
		next = append(next, state)
	}
	if do(a) {
		a.states = next
	} else {
		a.states = append(a.states, next...)
	}
	s.look(key)
}

// look reads all keys and pages of an actor, which must be those of one of its states. It does nothing if it can't.
func (s *script) look(key string) {
	s.Helper()
	a := s.actors[key]
	if s.dead.Load() {
		return
	}
	answer, ok := s.request(a.id, rp.KVList{Query: rp.KVAll{}}).(rp.KVListed)
	if !ok {
		return
	}
	has := map[string]string{}
	for _, e := range answer.Entries {
		if e.Key[0] != '\x08' { // pages are keys, too
			has[string(e.Key)] = string(e.Value)
		}
	}
	if s.p.isEnvoy() && !s.lookAtPages(a, has) {
		return
	}
	a.states = slices.DeleteFunc(a.states, func(state map[string]string) bool { return !maps.Equal(state, has) })
	if len(a.states) == 0 {
		s.Errorf("%s has the keys %v", key, slices.Collect(maps.Keys(has)))
		a.states = append(a.states, has)
	}
}

func (s *script) put(key string, pairs ...string) {
	s.Helper()
	var put rp.KVPut
	for i := 0; i < len(pairs); i += 2 {
		put.Pairs = append(put.Pairs, rp.KVPair{Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	s.change(key, put, func(state map[string]string) {
		for i := 0; i < len(pairs); i += 2 {
			state[pairs[i]] = pairs[i+1]
		}
	})
}

// keys writes and reads keys of the kept actor.
func (s *script) keys() {
	s.put("kept", "\x04a", "1", "\x04b", "1")
	s.put("kept", "\x04b", strings.Repeat("2", 100<<10), "\x04c", "2")
	s.change("kept", rp.KVDelete{Keys: [][]byte{[]byte("\x04a")}}, func(state map[string]string) { delete(state, "\x04a") })
	s.put("kept", "\x04d", "3", "\x04e", "3")
	s.change("kept", rp.KVDeleteRange{Start: []byte("\x04c"), End: []byte("\x04e")}, func(state map[string]string) {
		delete(state, "\x04c")
		delete(state, "\x04d")
	})
	if s.dead.Load() {
		return
	}
	a := s.actors["kept"]
	if got, ok := s.request(a.id, rp.KVGet{Keys: [][]byte{[]byte("\x04e")}}).(rp.KVGot); ok {
		found := slices.ContainsFunc(a.states, func(state map[string]string) bool {
			_, has := state["\x04e"]
			return has == (len(got.Entries) == 1)
		})
		if !found {
			s.Errorf("the value of e is %+v", got)
		}
	}
}

// sleep lets an actor sleep, until its alarm rings after a while if that isn't 0.
func (s *script) sleep(key string, alarm time.Duration) {
	s.Helper()
	at := s.awake(key)
	if s.dead.Load() {
		return
	}
	a, set := s.actors[key], rp.SetAlarm{}
	a.wakeBy = time.Time{}
	if alarm > 0 {
		a.wakeBy = time.Now().Add(alarm)
		set.At = rp.Some(a.wakeBy.UnixMilli())
	}
	s.p.event(at, set)
	s.p.event(at, rp.Intent(rp.IntentSleep))
	s.until("sleep", func() bool {
		now, started := s.last(a.id)
		return !started || now.Generation > at.Generation // it was started again because it was lost
	})
	synctest.Wait()
}

// slack is how much later than it must an engine that has failed once may start an actor: it pauses, and looks what is due.
const slack = 20 * time.Second

// alarm lets the kept actor sleep until its alarm rings.
func (s *script) alarm() {
	s.sleep("kept", 12*time.Second)
	if s.dead.Load() {
		return
	}
	pass(12 * time.Second)
	s.starts("kept")
}

// starts waits until an actor is started without a request.
func (s *script) starts(key string) {
	s.Helper()
	a, by := s.actors[key], time.Now().Add(slack)
	if !s.until(key+" is started", func() bool { return s.runs(a) || time.Now().After(by) }) {
		return
	}
	if !s.runs(a) {
		s.Errorf("%s isn't started", key)
	}
	a.wakeBy = time.Now()
}

// runs reports whether the runner has an actor.
func (s *script) runs(a *known) bool {
	synctest.Wait()
	_, started := s.last(a.id)
	return started
}

// connectSocket opens a WebSocket that hibernates to the kept actor.
func (s *script) connectSocket() {
	s.until("a socket", func() bool {
		n := len(s.heardSince(0))
		s.ws = s.dial("/gateway/"+s.actors["kept"].id+"/connect", "rivet")
		s.open = s.ws.CloseRead(s.Context())
		synctest.Wait()
		for _, m := range s.heardSince(n) {
			if m, ok := m.(rp.ToActor); ok {
				if _, ok := m.Body.(rp.SocketOpen); ok && s.open.Err() == nil {
					s.tunnel = m.ID.Tunnel
					return true
				}
			}
		}
		return false
	})
}

// send sends a message until the runner has it, over another socket if need be, and returns its index.
func (s *script) send(text string) (index uint16) {
	s.Helper()
	for !s.dead.Load() {
		n := len(s.heardSince(0))
		if s.open == nil || s.ws.Write(s.open, websocket.MessageText, []byte(text)) != nil {
			s.connectSocket()
			continue
		}
		s.until("the message "+text, func() bool {
			index = s.deliveredSince(n)[delivery{s.tunnel, text}]
			return index > 0 || s.open.Err() != nil
		})
		if index > 0 {
			s.actors["kept"].wakeBy = time.Now()
			return index
		}
		if s.dead.Load() {
			return 0
		}
		s.failed[s.tunnel], s.open = true, nil
	}
	return 0
}

// A delivery is a message that has come to the runner.
type delivery struct {
	tunnel rp.TunnelID
	text   string
}

// deliveredSince returns the indices of messages that have come, behind what was heard first. They must come in order.
func (s *script) deliveredSince(n int) map[delivery]uint16 {
	s.Helper()
	all, last := map[delivery]uint16{}, map[rp.TunnelID]uint16{}
	for _, m := range s.heardSince(n) {
		switch m := m.(type) {
		case rp.Commands:
			clear(last) // an actor that is started is sent everything again
		case rp.ToActor:
			if b, ok := m.Body.(rp.SocketMessage); ok {
				if m.ID.Index <= last[m.ID.Tunnel] {
					s.Errorf("message %s comes behind number %d", b.Data, last[m.ID.Tunnel])
				}
				last[m.ID.Tunnel] = m.ID.Index
				all[delivery{m.ID.Tunnel, string(b.Data)}] = m.ID.Index
			}
		}
	}
	return all
}

// ack acknowledges a message of the socket.
func (s *script) ack(index uint16) {
	if !s.dead.Load() {
		s.p.toClient(s.tunnel, rp.SocketAck{Index: index})
		s.acked[s.tunnel] = index
		synctest.Wait()
	}
}

// messages sends the kept actor messages: one that it acknowledges, one that it doesn't before it sleeps, and one that
// wakes it, which it never acknowledges.
func (s *script) messages() {
	if s.awake("kept"); s.dead.Load() {
		return
	}
	s.ack(s.send("one"))
	two := s.send("two")
	n := len(s.heardSince(0))
	if s.sleep("kept", 0); s.dead.Load() {
		return
	}
	s.actors["kept"].wakeBy = time.Now()
	s.until("two is sent again", func() bool {
		return s.deliveredSince(n)[delivery{s.tunnel, "two"}] == two || s.open.Err() != nil
	})
	if s.open.Err() != nil {
		s.failed[s.tunnel], s.open = true, nil
		two = s.send("two")
	}
	s.ack(two)
	if s.sleep("kept", 0); s.dead.Load() {
		return
	}
	s.send("three")
	s.send("four")
}

// destroy ends an actor.
func (s *script) destroy(key string) {
	if s.dead.Load() {
		return
	}
	a := s.actors[key]
	a.doomed = true
	_, a.gone = s.ask("DELETE", "/actors/"+a.id, "", `"not_found"`)
}

// leave lets an actor destroy itself, for which the engine has a while.
func (s *script) leave(key string) {
	at := s.awake(key)
	if s.dead.Load() {
		return
	}
	a := s.actors[key]
	a.doomed = true
	s.p.event(at, rp.Intent(rp.IntentStop))
	pass(slack)
	a.gone = !s.dead.Load()
}
