package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/coder/websocket"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A modelProgram is a process with RivetKit's runner.
type modelProgram struct {
	*model
	key   string
	dead  chan struct{} // closed when the process has been killed
	alive bool

	id    string
	conn  *program // its connection, once it was introduced; else nil
	insts map[string]*modelInstance
	kvs   uint32
	asked map[uint32]chan rp.ToRunner
	lost  *time.Timer
	conns int // how often it was connected
}

// A modelInstance is a generation of an actor in a program.
type modelInstance struct {
	p       *modelProgram
	a       *modelActor
	id      string
	at      rp.Checkpoint
	hiber   []rp.TunnelID
	inbox   chan rp.ToActor
	stop    chan struct{} // closed when it is told to stop
	told    bool
	gone    bool // it can't save any more
	stale   bool // the engine has called the program by another name since
	faulty  bool // the store fails now and then
	conns   int  // of the program when it began
	pages   modelPages
	history []rp.Event
	n       int
	sockets map[rp.TunnelID]int
	indices map[rp.TunnelID]uint16
}

func (m *model) program(key string) *modelProgram {
	p := &modelProgram{model: m, key: key, dead: make(chan struct{}), alive: true, insts: map[string]*modelInstance{}, asked: map[uint32]chan rp.ToRunner{}}
	m.progs = append(m.progs, p)
	m.note("program %s", key)
	go p.run()
	return p
}

// run connects the program again and again.
func (p *modelProgram) run() {
	for attempt := 0; ; attempt++ {
		if p.attempt() {
			attempt = 0
		}
		select {
		case <-p.dead:
			return
		case <-time.After(time.Second<<min(attempt, 3) + time.Duration(rand.IntN(500))*time.Millisecond):
		}
	}
}

// attempt connects the program, and serves it until its connection ends.
func (p *modelProgram) attempt() (came bool) {
	p.mu.Lock()
	r := p.rig
	p.mu.Unlock()
	if r == nil {
		return false
	}
	c := &program{rig: r, key: p.key, version: p.version, indices: map[rp.TunnelID]uint16{}}
	ws, resp, err := websocket.Dial(p.Context(), "ws://127.0.0.1"+c.path(), &websocket.DialOptions{
		Subprotocols: []string{"rivet", "rivet_token.none"}, HTTPClient: r.client,
	})
	if err != nil {
		return false
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	ws.SetReadLimit(64 << 20)
	c.ws = ws
	say(c, c.introduction("default"))
	p.mu.Lock()
	if p.lost != nil {
		p.lost.Stop()
	}
	p.mu.Unlock()
	for {
		_, b, err := ws.Read(context.Background())
		if err != nil {
			break
		}
		msg, err := rp.RunnerBound.Decode(c.version, b)
		must(p, err)
		p.take(c, msg)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note("%s is disconnected", p.key)
	if p.conn == c {
		p.conn = nil
	}
	_ = ws.CloseNow()
	if p.lost != nil {
		p.lost.Stop()
	}
	p.lost = time.AfterFunc(15*time.Second, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.note("%s stops all as it is lost", p.key)
		p.vanish()
	})
	return true
}

// kill ends the process.
func (p *modelProgram) kill() {
	if p.alive {
		p.alive = false
		close(p.dead)
	}
	p.vanish()
	if p.conn != nil {
		_ = p.conn.ws.CloseNow()
	}
}

// vanish ends all instances.
func (p *modelProgram) vanish() {
	for _, i := range p.insts {
		i.gone = true
		close(i.inbox)
	}
	clear(p.insts)
	for _, c := range p.asked {
		close(c)
	}
	clear(p.asked)
}

func say(c *program, m rp.ToEngine) {
	b, err := rp.EngineBound.Append(nil, c.version, m)
	must(c, err)
	_ = c.ws.Write(context.Background(), websocket.MessageBinary, b) // the reader hears of it
}

// say says something over the connection that there is, or not at all.
func (p *modelProgram) say(m rp.ToEngine) {
	if p.conn != nil {
		c := p.conn
		say(c, m)
	}
}

func (p *modelProgram) take(c *program, msg rp.ToRunner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive {
		return
	}
	switch msg := msg.(type) {
	case rp.EngineInit:
		p.note("%s is called %s", p.key, msg.RunnerID)
		p.conn = c
		p.conns++
		if p.id != msg.RunnerID {
			p.id = msg.RunnerID
			for _, i := range p.insts {
				i.stale = true
				i.halt()
			}
		}
		var again rp.Events
		for _, i := range p.insts {
			again = append(again, i.history...)
		}
		if len(again) > 0 {
			p.say(again)
		}
	case rp.AckEvents:
		for _, at := range msg {
			if i := p.insts[at.Actor]; i != nil {
				i.history = slices.DeleteFunc(i.history, func(e rp.Event) bool { return e.Checkpoint.Index <= at.Index })
			}
		}
	case rp.Ping:
		p.say(rp.Pong(msg))
	case rp.Commands:
		for _, cmd := range msg {
			p.command(cmd)
		}
	case rp.KVResponse:
		p.answered(msg.ID, msg)
	case rp.Reply[rp.Pages]:
		p.answered(msg.ID, msg)
	case rp.Reply[rp.Committed]:
		p.answered(msg.ID, msg)
	case rp.Reply[rp.StageBegun]:
		p.answered(msg.ID, msg)
	case rp.Reply[rp.SegmentStaged]:
		p.answered(msg.ID, msg)
	case rp.Reply[rp.StageFinished]:
		p.answered(msg.ID, msg)
	case rp.ToActor:
		id := ""
		switch b := msg.Body.(type) {
		case rp.RequestStart:
			id = b.Actor
		case rp.SocketOpen:
			id = b.Actor
		default:
			for _, i := range p.insts {
				if _, ok := i.sockets[msg.ID.Tunnel]; ok {
					id = i.id
				}
			}
		}
		if i := p.insts[id]; i != nil && !i.told {
			i.inbox <- msg
		}
	}
}

// answered passes an answer on.
func (p *modelProgram) answered(id uint32, msg rp.ToRunner) {
	if ch := p.asked[id]; ch != nil {
		ch <- msg
		delete(p.asked, id)
	}
}

func (p *modelProgram) command(c rp.Command) {
	id := c.Checkpoint.Actor
	start, ok := c.Body.(rp.StartActor)
	i := p.insts[id]
	if !ok {
		p.note("%s stop %s %d", p.key, id[:4], c.Checkpoint.Generation)
		if i != nil && i.at.Generation == c.Checkpoint.Generation {
			i.halt()
		}
		return
	}
	p.note("%s start %s %d %v", p.key, id[:4], c.Checkpoint.Generation, start.Hibernating)
	if i != nil {
		p.wrong("%s: %s: generation %d is started beside %d (stale: %v)", p.key, id[:4], c.Checkpoint.Generation, i.at.Generation, i.stale)
		return
	}
	for _, o := range p.progs {
		if j := o.insts[id]; o != p && j != nil && !j.stale && o.conn != nil && j.conns == o.conns {
			p.wrong("%s: %s: generation %d is started, and %d runs in %s", p.key, id[:4], c.Checkpoint.Generation, j.at.Generation, o.key)
		}
	}
	a := p.actors[id]
	if a == nil { // the answer to PUT was lost
		a = &modelActor{key: start.Key.Value}
		p.actors[id] = a
	}
	if a.gone && time.Now().After(a.goneAt) { // else it was told so before
		p.wrong("%s is started, and was destroyed", id[:4])
	}
	a.alarm = time.Time{}
	i = &modelInstance{
		p: p, a: a, id: id, at: c.Checkpoint, hiber: start.Hibernating, inbox: make(chan rp.ToActor, 10000), stop: make(chan struct{}),
		sockets: map[rp.TunnelID]int{}, indices: map[rp.TunnelID]uint16{},
	}
	for _, t := range start.Hibernating {
		i.sockets[t] = 0
	}
	i.at.Index, i.faulty, i.conns = -1, p.faulty, p.conns
	p.insts[id] = i
	i.event(rp.Running{})
	go i.run()
}

func (i *modelInstance) event(body rp.EventBody) {
	i.at.Index++
	e := rp.Event{Checkpoint: i.at, Body: body}
	i.history = append(i.history, e)
	i.p.say(rp.Events{e})
}

func (i *modelInstance) halt() {
	if !i.told {
		i.told = true
		close(i.stop)
	}
}

// ask asks for keys until there is an answer. It returns nil at the instance's end. The caller has p.mu.
func (i *modelInstance) ask(body rp.KVRequestBody) rp.KVResponseBody {
	r, _ := i.askFor(func(n uint32) rp.ToEngine { return rp.KVRequest{Actor: i.id, ID: n, Body: body} }).(rp.KVResponse)
	return r.Body
}

// askFor is ask for anything. An instance of RivetKit 2.3 ends by an error that isn't the store's.
func (i *modelInstance) askFor(m func(n uint32) rp.ToEngine) rp.ToRunner {
	p := i.p
	again := false
	for !i.gone {
		if p.conn == nil {
			p.mu.Unlock()
			<-time.After(50 * time.Millisecond)
			p.mu.Lock()
			continue
		}
		p.kvs++
		n, ch, id, conn := p.kvs, make(chan rp.ToRunner, 1), p.id, p.conn
		p.asked[n] = ch
		p.say(m(n))
		p.mu.Unlock()
		var answer rp.ToRunner
		select {
		case answer = <-ch:
		case <-time.After(5 * time.Second): // the answer was lost with the connection
		}
		p.mu.Lock()
		delete(p.asked, n)
		if why := refusalOf(answer); why != "" {
			if p.version == rp.Envoy8 && (again || i.conns != p.conns || i.told) {
				p.note("%s %d: it ends: %s", i.id[:4], i.at.Generation, why)
				i.fail()
				return nil
			}
			again = true
			if i.gone || i.stale || i.faulty || p.faulty || p.id != id || p.conn != conn || p.rig == nil {
				p.note("%s %d: refused: %s", i.id[:4], i.at.Generation, why)
				if i.stale {
					return nil
				}
				p.mu.Unlock()
				<-time.After(time.Second)
				p.mu.Lock()
			} else {
				p.wrong("%s: %s %d may not save: %s", p.key, i.id[:4], i.at.Generation, why)
				return nil
			}
			continue
		}
		if answer != nil {
			return answer
		}
		again = true
	}
	return nil
}

func (i *modelInstance) put(key, value string) bool {
	if i.p.version == rp.Envoy8 {
		return i.store(key, value)
	}
	return i.ask(rp.KVPut{Pairs: []rp.KVPair{{Key: []byte("\x04" + key), Value: []byte(value)}}}) != nil
}

func (i *modelInstance) toClient(id rp.TunnelID, body rp.FromActorBody) {
	i.p.say(rp.FromActor{ID: rp.MessageID{Tunnel: id, Index: i.indices[id]}, Body: body})
	i.indices[id]++
}

// run is the life of an instance.
func (i *modelInstance) run() {
	p := i.p
	<-time.After(time.Duration(rand.IntN(300)) * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !i.load() {
		i.end()
		return
	}
	awake := time.NewTimer(time.Duration(rand.IntN(20000)) * time.Millisecond)
	for !i.gone {
		p.mu.Unlock()
		var m rp.ToActor
		what, ok := 0, true
		select {
		case m, ok = <-i.inbox:
		default:
			select {
			case m, ok = <-i.inbox:
			case <-i.stop:
				what = 1
			case <-awake.C:
				what = 2
			}
		}
		p.mu.Lock()
		switch {
		case !ok || i.gone:
			return
		case what == 1:
			i.end()
			return
		case what == 2:
			if at := rand.IntN(3); at == 0 {
				i.a.alarm = time.Now().Add(time.Duration(rand.IntN(20000)) * time.Millisecond)
				i.event(rp.SetAlarm{At: rp.Some(i.a.alarm.UnixMilli())})
			}
			p.note("%s %d wants to sleep", i.id[:4], i.at.Generation)
			i.event(rp.Intent(rp.IntentSleep))
		default:
			i.message(m)
		}
	}
}

// end says that the instance has stopped.
func (i *modelInstance) end() {
	p := i.p
	p.mu.Unlock()
	<-time.After(time.Duration(rand.IntN(2000)) * time.Millisecond)
	p.mu.Lock()
	if i.gone {
		return
	}
	p.note("%s %d has stopped (%d)", i.id[:4], i.at.Generation, i.n)
	i.event(rp.Stopped{})
	i.gone = true
	delete(p.insts, i.id)
}

// load reads what is stored.
func (i *modelInstance) load() bool {
	stored, ok := i.stored()
	if !ok {
		return false
	}
	if i.n = stored["n"]; i.n < i.a.acked || i.n > i.a.sent {
		i.p.wrong("%s %d finds %d, acknowledged %d, sent %d", i.id[:4], i.at.Generation, i.n, i.a.acked, i.a.sent)
	}
	i.a.acked, i.a.sent = i.n, i.n // what hasn't landed by now never does
	open := map[string]bool{}
	for _, t := range i.hiber {
		name := "w" + t.String()
		open[name] = true
		if _, ok := stored[name]; !ok {
			i.p.note("%s: no socket %s", i.id[:4], t)
			for _, s := range i.p.model.sockets {
				s.refused = s.refused || s.tunnel == t
			}
			i.toClient(t, rp.ActorClose{Code: rp.Some(uint16(1000)), Reason: rp.Some("ws.meta_not_found_during_restore")})
			delete(i.sockets, t)
			continue
		}
		i.sockets[t] = stored[name]
		if i.p.version == rp.Envoy8 {
			i.toClient(t, rp.SocketAccept{CanHibernate: true})
		}
		i.got(t, stored[name])
	}
	for name := range stored {
		if name != "n" && !open[name] && !i.remove(name) {
			return false
		}
	}
	return true
}

// stored reads what is stored.
func (i *modelInstance) stored() (map[string]int, bool) {
	if i.p.version == rp.Envoy8 {
		return i.read()
	}
	got, ok := i.ask(rp.KVList{Query: rp.KVAll{}}).(rp.KVListed)
	all := map[string]int{}
	for _, e := range got.Entries {
		all[string(e.Key[1:])], _ = strconv.Atoi(string(e.Value))
	}
	return all, ok
}

// remove removes what is stored under a key.
func (i *modelInstance) remove(key string) bool {
	if i.p.version == rp.Envoy8 {
		return i.store(key, "")
	}
	return i.ask(rp.KVDelete{Keys: [][]byte{[]byte("\x04" + key)}}) != nil
}

// got notes which messages of a socket the actor has.
func (i *modelInstance) got(t rp.TunnelID, n int) {
	for _, s := range i.p.model.sockets {
		if s.tunnel == t {
			s.kept = max(s.kept, n)
		}
	}
}

func (i *modelInstance) message(m rp.ToActor) {
	t := m.ID.Tunnel
	switch b := m.Body.(type) {
	case rp.RequestStart:
		if b.Path == "/health" {
			i.toClient(t, rp.ResponseStart{Status: 200})
			return
		}
		i.n++
		i.a.sent = max(i.a.sent, i.n)
		if !i.put("n", fmt.Sprint(i.n)) {
			return
		}
		i.a.acked = i.n
		i.toClient(t, rp.ResponseStart{Status: 200, Body: fmt.Append(nil, i.n)})
	case rp.SocketOpen:
		if i.sockets[t] = 0; !i.put("w"+t.String(), "0") {
			return
		}
		i.toClient(t, rp.SocketAccept{CanHibernate: true})
		i.toClient(t, rp.SocketMessage{Data: []byte(fmt.Sprintf("%x", t.Gateway) + fmt.Sprintf("%x", t.Request))})
	case rp.SocketMessage:
		cur, ok := i.sockets[t]
		if !ok || int(m.ID.Index) <= cur {
			return
		}
		if int(m.ID.Index) != cur+1 || string(b.Data) != fmt.Sprint(cur+1) {
			i.p.wrong("%s %d: %s: message %d (%s) behind %d", i.id[:4], i.at.Generation, t, m.ID.Index, b.Data, cur)
			return
		}
		i.sockets[t] = cur + 1
		if !i.put("w"+t.String(), fmt.Sprint(cur+1)) {
			return
		}
		i.got(t, cur+1)
		if rand.IntN(3) > 0 {
			i.toClient(t, rp.SocketAck{Index: uint16(cur + 1)})
		}
	case rp.ClientClose:
		if _, ok := i.sockets[t]; ok {
			delete(i.sockets, t)
			_ = i.remove("w" + t.String())
		}
	}
}
