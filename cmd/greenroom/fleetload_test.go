//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A fleetLoad is clients of all hosts of a store: callers add to counters over HTTP, and talkers say things in rooms over sockets.
type fleetLoad struct {
	fleetLedger
	hosts   *fleetHosts
	size    fleetSize
	callers []*fleetCaller
	talkers []*fleetTalker
	stopped chan struct{}
	work    sync.WaitGroup
}

// fleetSize says how large a load is, and how long a client does nothing after a call.
type fleetSize struct {
	callers, counters, talkers, rooms int
	pause                             time.Duration
}

// newFleetLoad returns a load that has not begun. Its talkers are connected.
func newFleetLoad(ctx context.Context, hosts *fleetHosts, size fleetSize) *fleetLoad {
	l := &fleetLoad{hosts: hosts, size: size, stopped: make(chan struct{})}
	for i := range size.callers {
		l.callers = append(l.callers, &fleetCaller{load: l, id: i, counters: size.counters, client: &http.Client{Transport: &http.Transport{}}})
	}
	for i := range size.talkers {
		who := &fleetTalker{load: l, id: i, name: fmt.Sprintf("talker %02d", i), room: fmt.Sprintf("chat/%d", i%size.rooms), log: map[int64]string{}}
		l.talkers = append(l.talkers, who)
		who.connect(ctx)
	}
	return l
}

// begin has the clients work until stop.
func (l *fleetLoad) begin(ctx context.Context) {
	for _, c := range l.callers {
		l.work.Go(func() {
			for n := 0; l.pause(ctx); n++ {
				c.add(ctx, n)
			}
		})
	}
	for i := range l.hosts.list {
		l.work.Go(func() {
			for l.pause(ctx) {
				l.hosts.pick(i).look(ctx)
			}
		})
	}
	for _, c := range l.talkers {
		l.work.Go(func() {
			for n := 0; l.pause(ctx); n++ {
				c.say(ctx, fmt.Sprintf("%s: %d", c.name, n), n%2 == 0)
			}
		})
	}
}

// stop waits until all calls have ended.
func (l *fleetLoad) stop() {
	close(l.stopped)
	l.work.Wait()
	for _, c := range l.callers {
		c.client.CloseIdleConnections()
	}
}

// pause waits for a moment. It is false if the client is to end.
func (l *fleetLoad) pause(ctx context.Context) bool {
	select {
	case <-l.stopped:
		return false
	case <-ctx.Done():
		return false
	case <-time.After(l.size.pause):
		return true
	}
}

// A fleetHost is one of the hosts.
type fleetHost struct {
	*hostProcess
	leaves, dies atomic.Bool // it was told to end; it is killed
	unready      atomic.Bool // it was when it was asked last
	balancer     bool        // it is what spreads calls over hosts
}

// look asks whether the host is ready.
func (h *fleetHost) look(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/readyz", nil)
	if err != nil {
		panic(err) // of an address that a host has printed
	}
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		err = answer.Body.Close()
	}
	h.unready.Store(err != nil || answer.StatusCode != http.StatusOK)
}

// fleetHosts are the hosts that clients know of.
type fleetHosts struct {
	url    string
	schema int         // of the types of hosts that are started; see hostSchema
	stay   bool        // a host that is started in the place of another one has its address
	killed atomic.Bool // one of them was
	mu     sync.Mutex
	list   []*fleetHost
}

// startFleet starts so many hosts on a store.
func startFleet(t *testing.T, url string, n int) *fleetHosts {
	f := &fleetHosts{url: url, schema: 1}
	for range n {
		f.list = append(f.list, f.start(t, anyPort))
	}
	return f
}

// anyPort is an address with a port that is free.
const anyPort = "127.0.0.1:0"

func (f *fleetHosts) start(t *testing.T, listen string) *fleetHost {
	t.Helper()
	env := []string{hostSchema + "=" + strconv.Itoa(f.schema)}
	return &fleetHost{hostProcess: startServer(t, env, "", "host", "--demo", "--listen", listen, "--drain", testkit.Patience(time.Second).String(), f.url)}
}

// pick returns a host, the next one for n+1.
func (f *fleetHosts) pick(n int) *fleetHost {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list[n%len(f.list)]
}

// restart ends a host as a supervisor does, and then starts another one in its place.
func (f *fleetHosts) restart(ctx context.Context, t *testing.T, i int) {
	t.Helper()
	h := f.pick(i)
	h.leaves.Store(true)
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.ended:
	case <-ctx.Done():
		t.Fatal("a host doesn't end")
	}
	if h.err != nil || strings.Contains(h.stderr.String(), "cut off") {
		t.Errorf("a host has ended with %v: %s", h.err, &h.stderr)
	}
	f.replace(t, i)
}

// replace starts a host in the place of one that has ended.
func (f *fleetHosts) replace(t *testing.T, i int) {
	t.Helper()
	listen := anyPort
	if f.stay {
		listen = strings.TrimPrefix(f.pick(i).url, "http://")
	}
	next := f.start(t, listen)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list[i] = next
}

// kill kills a host, which stays in the list until it is replaced.
func (f *fleetHosts) kill(i int) {
	h := f.pick(i)
	f.killed.Store(true)
	h.dies.Store(true)
	h.hostProcess.kill()
}

// A fleetOutcome is what a client knows of what it has asked for.
type fleetOutcome int

const (
	fleetDone    fleetOutcome = iota
	fleetNothing              // nothing was done, and it may be tried again
	fleetUnknown              // it may have been done, since a host was killed
	fleetFault                // a fault, which is noted
)

// fleetNothingCodes are the codes of errors with status 503.
var fleetNothingCodes = map[string]bool{
	"overloaded": true, "busy": true, "shutting_down": true, "unavailable": true, "host_unreachable": true, "actor_moved": true, "cancelled": true,
}

// refused returns what it means that a host has answered with an error.
func (f *fleetHosts) refused(code string) fleetOutcome {
	switch {
	case fleetNothingCodes[code]:
		return fleetNothing
	case code == "unknown_outcome" && f.killed.Load():
		return fleetUnknown
	}
	return fleetFault
}

// A fleetCaller is a client over HTTP, which has one call under way at a time. Calls without a key go to hosts that are ready, as through a load balancer: a request that meets the
// end of its connection, or of the listener, gets no answer. Those with a key go to any host.
type fleetCaller struct {
	load         *fleetLoad
	id, counters int
	client       *http.Client
	doubts       int // calls that may have been done
}

// add adds to a counter. Every third call has a key, and is sent again until it is answered.
func (c *fleetCaller) add(ctx context.Context, n int) {
	actor, amount, key := fmt.Sprintf("counter/%d", (c.id+n)%c.counters), int64(n%7+1), ""
	if n%3 == 0 {
		key = fmt.Sprintf("caller-%d-%d", c.id, n)
	}
	began := c.load.now()
	for try := 0; ; try++ {
		h := c.load.hosts.pick(c.id + n + try)
		if key == "" && h.unready.Load() {
			c.load.rest(ctx, try)
			continue
		}
		var sum int64
		switch c.post(ctx, h, actor+"/actions/add", key, amount, &sum) {
		case fleetDone:
			c.load.answer(actor, began, amount, sum)
			return
		case fleetNothing:
			c.load.refuse()
		case fleetUnknown:
			if c.doubts++; key == "" {
				c.load.doubt(actor, amount)
				return
			}
		default:
			c.load.doubt(actor, amount)
			return
		}
		c.load.rest(ctx, try)
	}
}

// rest waits before a client tries again, if it has asked each host.
func (l *fleetLoad) rest(ctx context.Context, try int) {
	if try%3 < 2 {
		return
	}
	select {
	case <-time.After(l.size.pause):
	case <-ctx.Done():
	}
}

// get returns the number of a counter.
func (c *fleetCaller) get(ctx context.Context, actor string) (int64, bool) {
	for try := 0; ; try++ {
		var got struct{ Number int64 }
		switch c.post(ctx, c.load.hosts.pick(try), actor+"/actions/get", "", nil, &got) {
		case fleetDone:
			return got.Number, true
		case fleetFault:
			return 0, false
		}
		c.load.rest(ctx, try)
	}
}

// post calls an action.
func (c *fleetCaller) post(ctx context.Context, h *fleetHost, path, key string, args, result any) fleetOutcome {
	body, err := json.Marshal(args)
	if err != nil {
		c.load.fault("%v", err)
		return fleetFault
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/actors/"+path, strings.NewReader(string(body)))
	if err != nil {
		c.load.fault("%v", err)
		return fleetFault
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	status := 0
	answer, err := c.client.Do(r)
	if err == nil {
		defer answer.Body.Close()
		status = answer.StatusCode
		if answer.Close && !h.leaves.Load() {
			c.load.fault("caller %d: %s, which stays, closes its connection with status %d", c.id, h.url, status)
		}
		body, err = io.ReadAll(answer.Body)
	}
	var problem struct{ Code, Message string }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fleetNothing
	case err != nil && h.dies.Load() && ctx.Err() == nil:
		return fleetUnknown
	case err != nil && h.leaves.Load() && key != "" && ctx.Err() == nil:
		return fleetNothing // or something, once
	case err == nil && status == http.StatusOK:
		if err = json.Unmarshal(body, result); err == nil {
			return fleetDone
		}
	case err == nil && status == http.StatusBadGateway && h.balancer && key == "":
		return fleetUnknown // its host had ended its listener, and a call without a key isn't sent again
	case err == nil:
		if err = json.Unmarshal(body, &problem); err == nil {
			if o := c.load.hosts.refused(problem.Code); o != fleetFault {
				return o
			}
		}
	}
	c.load.fault("caller %d: %s at %s (which is about to end: %v), key %q: status %d, %q, %v", c.id, path, h.url, h.leaves.Load(), key, status, body, err)
	return fleetFault
}

// A fleetTalker is a client in a room, with one connection that goes from host to host.
type fleetTalker struct {
	load        *fleetLoad
	id          int
	name, room  string
	at          *fleetHost      // whose socket it is
	ws          *websocket.Conn // nil for none at the moment
	conn, token string
	sockets     int              // so far
	sent        int              // requests of the socket
	log         map[int64]string // what was said, by number
	whole       int64            // it has all messages up to this one
	heard       int64            // the newest that was sent to it
	behind      bool             // it has to ask what it has missed
	gaps        int              // how often it had missed something, while its socket was open
	doubts      int
}

// A fleetMessage is one of the room.
type fleetMessage struct {
	ID         int64
	Name, Text string
}

// connect makes the connection, or takes it up again, at one host or another.
func (c *fleetTalker) connect(ctx context.Context) bool {
	for try := 0; ctx.Err() == nil; try++ {
		switch c.dial(ctx, c.load.hosts.pick(c.id+c.sockets+try)) {
		case fleetDone:
			c.sockets++
			return true
		case fleetFault:
			return false
		}
		c.load.refuse()
		c.load.rest(ctx, try)
	}
	c.load.fault("%s finds no host: %v", c.name, ctx.Err())
	return false
}

// dial opens a socket to a host.
func (c *fleetTalker) dial(ctx context.Context, h *fleetHost) fleetOutcome {
	first := hostMessage{Type: "connect", Params: map[string]string{"name": c.name}}
	if c.conn != "" {
		first = hostMessage{Type: "resume", Conn: c.conn, Token: c.token}
	}
	ends := func() bool { return h.leaves.Load() || h.dies.Load() }
	ws, answer, err := websocket.Dial(ctx, h.url+"/actors/"+c.room+"/connect", nil)
	switch {
	case err == nil:
	case errors.Is(err, syscall.ECONNREFUSED), answer != nil && answer.StatusCode == http.StatusServiceUnavailable, ends():
		return fleetNothing
	default:
		c.load.fault("%s can't connect to %s: %v", c.name, h.url, err)
		return fleetFault
	}
	ws.SetReadLimit(1 << 20)
	c.ws, c.at = ws, h
	m, o := c.ask(ctx, first, "connected")
	switch {
	case o == fleetNothing, o == fleetUnknown:
		_ = ws.CloseNow() // it is of no use
		c.ws = nil
		return fleetNothing
	case o == fleetFault:
		return o
	case c.conn != "" && m.Conn != c.conn:
		c.load.fault("%s resumes %s, and gets %s", c.name, c.conn, m.Conn)
		return fleetFault
	}
	c.behind = c.conn != ""
	c.conn, c.token = m.Conn, m.Token
	return fleetDone
}

// ask sends a message, and waits for an answer of that type, past all events.
func (c *fleetTalker) ask(ctx context.Context, m hostMessage, want string) (hostMessage, fleetOutcome) {
	b, err := json.Marshal(m)
	if err != nil {
		c.load.fault("%v", err)
		return m, fleetFault
	}
	_ = c.ws.Write(ctx, websocket.MessageText, b) // if it fails, reading says why
	for {
		got, o := c.read(ctx)
		switch {
		case o != fleetDone:
			return got, o
		case got.Type == want && got.ID == m.ID:
			return got, fleetDone
		case got.Type == "error" && got.ID == m.ID:
			o := c.load.hosts.refused(got.Code)
			if o == fleetFault {
				c.load.fault("%s: %s %s at %s (which is about to end: %v): %s: %s", c.name, m.Type, m.Action, c.at.url, c.at.leaves.Load(), got.Code, got.Message)
			}
			return got, o
		}
	}
}

// read reads a message. If the socket has ended, as it may, what wasn't answered wasn't done, unless the host was killed.
func (c *fleetTalker) read(ctx context.Context) (m hostMessage, o fleetOutcome) {
	_, b, err := c.ws.Read(ctx)
	if err == nil {
		if err = json.Unmarshal(b, &m); err == nil {
			if m.Type == "event" {
				c.hear(m)
			}
			return m, fleetDone
		}
	}
	_ = c.ws.CloseNow() // it has ended
	c.ws = nil
	switch {
	case c.at.dies.Load() && ctx.Err() == nil:
		return m, fleetUnknown
	case (c.at.leaves.Load() || c.at.balancer) && websocket.CloseStatus(err) == websocket.StatusServiceRestart:
		return m, fleetNothing
	}
	c.load.fault("%s: the socket at %s (which is about to end: %v) has ended: %v", c.name, c.at.url, c.at.leaves.Load(), err)
	return m, fleetFault
}

// hear takes an event: messages that are sent as they are said come once, in their order.
func (c *fleetTalker) hear(m hostMessage) {
	if m.Event != "message" {
		return
	}
	var said fleetMessage
	if err := json.Unmarshal(m.Body, &said); err != nil {
		c.load.fault("%s: %v", c.name, err)
		return
	}
	if said.ID <= c.heard {
		c.load.fault("%s is sent message %d after message %d", c.name, said.ID, c.heard)
	}
	c.heard = max(c.heard, said.ID)
	c.learn(said)
	if c.heard > c.whole && !c.behind {
		c.behind = true
		c.gaps++
	}
}

// learn notes a message.
func (c *fleetTalker) learn(m fleetMessage) {
	if was, ok := c.log[m.ID]; ok && was != m.Text {
		c.load.fault("%s is told that message %d is %q, and was told that it is %q", c.name, m.ID, m.Text, was)
	}
	c.log[m.ID] = m.Text
	for {
		if _, ok := c.log[c.whole+1]; !ok {
			return
		}
		c.whole++
	}
}

// call calls an action over the connection, wherever that is.
func (c *fleetTalker) call(ctx context.Context, action, key string, args, result any) fleetOutcome {
	for try := 0; ; try++ {
		if c.ws == nil && !c.connect(ctx) {
			return fleetFault
		}
		c.sent++
		m, o := c.ask(ctx, hostMessage{Type: "call", ID: c.sent, Action: action, Args: args, IdempotencyKey: key}, "result")
		switch {
		case o == fleetNothing:
			c.load.refuse()
			c.load.rest(ctx, 2)
			continue
		case o == fleetDone:
			if err := json.Unmarshal(m.Body, result); err != nil {
				c.load.fault("%s: %s: %q, %v", c.name, action, m.Body, err)
				return fleetFault
			}
		}
		return o
	}
}

// say says something, with a key or without, and asks what the client has missed.
func (c *fleetTalker) say(ctx context.Context, text string, keyed bool) {
	key := ""
	if keyed {
		key = text
	}
	began := c.load.now()
	for {
		var m fleetMessage
		o := c.call(ctx, "say", key, map[string]string{"text": text}, &m)
		if o == fleetUnknown {
			if c.doubts++; keyed {
				continue
			}
		}
		if o != fleetDone {
			c.load.doubt(c.room, 1)
			return
		}
		if m.Name != c.name || m.Text != text {
			c.load.fault("%s says %q, and is told %+v", c.name, text, m)
		}
		c.load.answer(c.room, began, 1, m.ID)
		c.learn(m)
		break
	}
	if c.behind {
		c.catchUp(ctx)
	}
}

// catchUp asks for all messages that the client doesn't have.
func (c *fleetTalker) catchUp(ctx context.Context) {
	for {
		c.behind = false
		var page []fleetMessage
		switch c.call(ctx, "history", "", c.whole, &page) {
		case fleetUnknown:
			continue // it changes nothing
		case fleetFault:
			return
		}
		for _, m := range page {
			c.learn(m)
		}
		if len(page) == 0 {
			return
		}
	}
}
