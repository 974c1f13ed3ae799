package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// What the engine of a crowd of scale 1 may have of clients, and of one body.
const (
	crowdMemory = 8 << 20
	crowdBody   = 1 << 20
)

// attacks are what one client, or some, do while others are served.
var attacks = map[string]func(*crowd){
	"flood": flood, "floods": floods, "uploads": uploads, "half messages": halfMessages, "unread answers": unreadAnswers,
	"half bodies": halfBodies, "unread messages": unreadMessages, "gone senders": goneSenders, "unacknowledged": unacknowledged, "tiny messages": tinyMessages,
}

// TestLargeAttacks makes them with 20 times as much, as much as an engine has for clients that was told nothing else.
func TestLargeAttacks(t *testing.T) {
	testkit.OnlyLong(t, "it moves some gigabytes")
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) { inCrowd(t, 20, attack) })
	}
}

// A crowd is a runner with two actors, and clients of these which must be served whatever another client does.
type crowd struct {
	*rig
	p      *program
	id     string // of the actor that is attacked
	other  string // of another one
	victim pair   // a socket of the other actor
	most   int64  // the most bytes that were seen in memory
	scale  int    // how much larger everything is than crowdMemory and crowdBody
}

// body returns how many bytes a body may have.
func (c *crowd) body() int { return c.scale * crowdBody }

// inCrowd runs attack in a bubble. In the end no bytes of clients may be left, the runner must be there, and all others must have
// been answered.
func inCrowd(t *testing.T, scale int, attack func(c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opts := quiet()
		opts.Memory, opts.MaxBody = int64(scale)*crowdMemory, int64(scale)*crowdBody
		opts.MaxPending, opts.MaxQueued, opts.MaxKept = scale<<22, scale<<24, scale<<20
		c := &crowd{rig: &rig{TB: t, kv: memkv.New(), piped: true, opts: opts}, scale: scale}
		c.start()
		c.p = c.connect("default", "k")
		c.id, c.other = c.actor("counter", "a"), c.actor("counter", "b")
		c.p.started(c.id)
		c.p.started(c.other)
		c.victim.p = c.p
		c.victim.ws, c.victim.tunnel = c.p.socket(c.other)
		c.p.mu.Lock()
		c.p.reply = func(m rp.ToActor, b rp.RequestStart) {
			switch {
			case strings.HasPrefix(b.Path, "/large"):
				c.p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 200, Body: make([]byte, c.body()-1000)})
			case !strings.HasPrefix(b.Path, "/never"):
				c.p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 200, Body: []byte("small")})
			}
		}
		c.p.mu.Unlock()
		attack(c)
		pass(2 * time.Minute) // all deadlines
		c.served()
		if n := c.engine.Held(); n != 0 {
			t.Errorf("%d bytes are left", n)
		}
		if memory := c.opts.Memory; c.most > memory+c.opts.MaxBody || c.most < memory/32 {
			t.Errorf("up to %d bytes were in memory", c.most)
		}
		select {
		case <-c.p.ended:
			t.Error("the runner is cut off")
		default:
		}
		c.close()
		<-c.p.ended
	})
}

// look notes how much is in memory.
func (c *crowd) look() { c.most = max(c.most, c.engine.Held()) }

// served lets the other clients ask both actors.
func (c *crowd) served() {
	c.Helper()
	c.look()
	for _, id := range []string{c.id, c.other} {
		c.want(http.StatusOK, "small", "POST", "/gateway/"+id+"/hello", "x")
		c.want(http.StatusOK, "small", "GET", "/gateway/"+id+"/hello", "")
	}
	c.victim.talk()
	synctest.Wait() // what is written is given back
	c.look()
}

// busy lets the runner take some time for each message.
func (c *crowd) busy(d time.Duration) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.pause = d
}

// TestFlood: a client that sends over a socket what its runner can't take is read from as the runner takes it.
func TestFlood(t *testing.T) { inCrowd(t, 1, flood) }

func flood(c *crowd) {
	ws, _ := c.p.socket(c.id)
	c.busy(20 * time.Millisecond)
	var all sync.WaitGroup
	all.Go(func() {
		for range 200 {
			must(c, ws.Write(c.Context(), websocket.MessageBinary, make([]byte, c.body()/4)))
		}
	})
	for range 10 {
		pass(100 * time.Millisecond)
		c.served()
	}
	all.Wait()
	for range 200 {
		toActor[rp.SocketMessage](c.p)
	}
}

// TestFloods: so many clients do this that the share of their address is full.
func TestFloods(t *testing.T) { inCrowd(t, 1, floods) }

func floods(c *crowd) {
	var sockets []*websocket.Conn
	for range 30 { // all before the first message, behind which they would wait
		ws, _ := c.p.socket(c.id)
		sockets = append(sockets, ws)
	}
	c.busy(5 * time.Millisecond)
	var all sync.WaitGroup
	for _, ws := range sockets {
		all.Go(func() {
			for range 10 {
				must(c, ws.Write(c.Context(), websocket.MessageBinary, make([]byte, c.body()/4)))
			}
		})
	}
	for range 10 {
		pass(100 * time.Millisecond)
		c.served()
	}
	all.Wait()
}

// TestUploads: many large requests at once are served one after the other.
func TestUploads(t *testing.T) { inCrowd(t, 1, uploads) }

func uploads(c *crowd) {
	c.busy(100 * time.Millisecond)
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			resp, err := c.client.Post(c.url+"/gateway/"+c.id+"/", "text/plain", bytes.NewReader(make([]byte, c.body())))
			must(c, err)
			if resp.StatusCode != http.StatusOK {
				c.Errorf("%s", resp.Status)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	for range 10 {
		pass(100 * time.Millisecond)
		c.served()
	}
	all.Wait()
}

// TestHalfMessages: messages over sockets that begin and don't go on.
func TestHalfMessages(t *testing.T) { inCrowd(t, 1, halfMessages) }

func halfMessages(c *crowd) {
	for range 40 {
		ws, _ := c.p.socket(c.id)
		w, err := ws.Writer(c.Context(), websocket.MessageBinary)
		must(c, err)
		go func() { _, _ = w.Write(make([]byte, c.body()-1000)) }() // until the engine ends it
	}
	for range 70 {
		pass(time.Second)
		c.served()
	}
	if n := c.engine.Held(); n != 0 {
		c.Errorf("after a minute %d bytes are in memory", n)
	}
}

// TestUnreadAnswers: answers that their clients don't read.
func TestUnreadAnswers(t *testing.T) { inCrowd(t, 1, unreadAnswers) }

func unreadAnswers(c *crowd) {
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			resp, err := c.client.Get(c.url + "/gateway/" + c.id + "/large")
			if err == nil {
				c.Cleanup(func() { _ = resp.Body.Close() })
			}
		})
		pass(100 * time.Millisecond)
		c.served()
	}
	all.Wait()
	for range 40 {
		pass(time.Second)
		c.served()
	}
	if n := c.engine.Held(); n != 0 {
		c.Errorf("after a while %d bytes are in memory", n)
	}
}

// TestHalfBodies: bodies that begin and don't go on.
func TestHalfBodies(t *testing.T) { inCrowd(t, 1, halfBodies) }

func halfBodies(c *crowd) {
	for range 30 {
		from, to := io.Pipe()
		defer to.Close()
		go c.post(c.id, from)()
		go func() { _, _ = to.Write(make([]byte, c.body()/2)) }()
	}
	for range 70 {
		pass(time.Second)
		c.served()
	}
	if n := c.engine.Held(); n != 0 {
		c.Errorf("after a minute %d bytes are in memory", n)
	}
}

// TestUnreadMessages: what an actor sends over sockets of clients that don't read.
func TestUnreadMessages(t *testing.T) { inCrowd(t, 1, unreadMessages) }

func unreadMessages(c *crowd) {
	for range 10 {
		_, tunnel := c.p.socket(c.id)
		for range 10 {
			c.p.toClient(tunnel, rp.SocketMessage{Data: make([]byte, c.body()/8)})
		}
		pass(time.Second)
		c.served()
	}
	pass(writeTime)
}

// writeTime is how long a peer may take nothing.
const writeTime = 31 * time.Second

// TestGoneSenders: what clients have sent that have gone counts until the runner has it.
func TestGoneSenders(t *testing.T) { inCrowd(t, 1, goneSenders) }

func goneSenders(c *crowd) {
	var sockets []*websocket.Conn
	for range 30 {
		ws, _ := c.p.socket(c.id)
		sockets = append(sockets, ws)
	}
	c.busy(time.Second)
	for _, ws := range sockets {
		must(c, ws.Write(c.Context(), websocket.MessageBinary, make([]byte, c.body()/32)))
		must(c, ws.CloseNow())
		synctest.Wait()
		c.look()
	}
	if n := c.engine.Held(); n < int64(20*c.body()/32) {
		c.Errorf("%d bytes are in memory", n)
	}
	c.busy(0)
	c.most = max(c.most, c.opts.Memory/8)
}

// TestUnacknowledged: what clients have sent that have gone, and the actor doesn't acknowledge, is stored up to a bound, and isn't in memory.
func TestUnacknowledged(t *testing.T) { inCrowd(t, 1, unacknowledged) }

func unacknowledged(c *crowd) {
	const size = 100 << 10
	stays := make(chan error, 1)
	var tunnels []rp.TunnelID
	for n := range 50 {
		ws := c.dial("/gateway/"+c.id+"/connect", "rivet")
		tunnels = append(tunnels, toActor[rp.SocketOpen](c.p).ID.Tunnel)
		ctx, cancel := context.WithTimeout(c.Context(), 20*time.Second)
		if n == 0 {
			ctx = c.Context()
			go func() {
				_, _, err := ws.Read(ctx)
				stays <- err
			}()
		}
		go func() {
			defer cancel()
			for ws.Write(ctx, websocket.MessageBinary, make([]byte, size)) == nil { // until it isn't read from any more
			}
			_ = ws.CloseNow()
		}()
	}
	for range 30 {
		pass(time.Second)
		c.served()
	}
	pass(5 * time.Minute)
	kept := c.kept(c.id)
	if n := c.engine.Held(); n != int64(kept*engine.MessageOverhead) {
		c.Errorf("when the clients have gone %d bytes are in memory, of %d messages", n, kept)
	}
	if err := <-stays; !strings.Contains(err.Error(), "guard.gateway_response_start_timeout") {
		c.Errorf("a client that has stayed hears %v", err)
	}
	if n := kept * size; n < c.opts.MaxKept-50*size || n > 2*c.opts.MaxKept {
		c.Errorf("%d bytes are kept", n)
	}
	for _, tunnel := range tunnels {
		c.p.toClient(tunnel, rp.SocketAck{Index: 1000}) // of all
	}
}

// TestTinyMessages: messages of a byte count for what they take.
func TestTinyMessages(t *testing.T) { inCrowd(t, 1, tinyMessages) }

func tinyMessages(c *crowd) {
	var all sync.WaitGroup
	var sockets []*websocket.Conn
	for range 20 {
		ws, _ := c.p.socket(c.id)
		sockets = append(sockets, ws)
	}
	c.busy(10 * time.Microsecond)
	for _, ws := range sockets {
		all.Go(func() {
			for range 1000 * min(c.scale, 5) {
				must(c, ws.Write(c.Context(), websocket.MessageText, []byte("x")))
			}
		})
	}
	for range 10 {
		pass(10 * time.Millisecond)
		c.served()
	}
	all.Wait()
}

// TestSlowRunner: a runner that takes its time isn't cut off, one that takes nothing is.
func TestSlowRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{TB: t, kv: memkv.New(), piped: true, opts: quiet()}
		r.start()
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		p.started(id)
		p.mu.Lock()
		p.pause, p.reply = 20*time.Second, func(rp.ToActor, rp.RequestStart) {}
		p.mu.Unlock()
		var all sync.WaitGroup
		for range 5 {
			all.Go(r.post(id, bytes.NewReader(make([]byte, 1<<20))))
		}
		for range 5 {
			pass(20 * time.Second)
			r.want(http.StatusOK, `"runners":[{`, "GET", "/runners?namespace=default&name=default", "")
		}
		p.mu.Lock()
		p.deaf = true
		p.mu.Unlock()
		all.Go(r.post(id, bytes.NewReader(make([]byte, 1<<20))))
		all.Go(r.post(id, bytes.NewReader(make([]byte, 1<<20))))
		pass(time.Minute)
		r.want(http.StatusOK, `"runners":[]`, "GET", "/runners?namespace=default&name=default", "")
		all.Wait()
		r.close()
		<-p.ended
	})
}

// TestUnanswered: a request that the actor doesn't answer ends, and the actor is told so.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{TB: t, kv: memkv.New(), piped: true, opts: quiet()}
		r.start()
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		p.started(id)
		p.mu.Lock()
		p.reply = func(m rp.ToActor, b rp.RequestStart) {
			if b.Path == "/begun" {
				p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 200, Stream: true, Body: []byte("one")})
				pass := time.AfterFunc(time.Hour, func() { p.toClient(m.ID.Tunnel, rp.ResponseChunk{Data: []byte(" two"), Finish: true}) })
				t.Cleanup(func() { pass.Stop() })
			}
		}
		p.mu.Unlock()
		for path, want := range map[string]string{"/never": "504 gateway_response_start_timeout 5m0s", "/begun": "200 one two 1h0m0s"} {
			start := time.Now()
			resp, err := r.client.Get(r.url + "/gateway/" + id + path)
			must(t, err)
			b, err := io.ReadAll(resp.Body)
			must(t, err)
			for _, part := range strings.Fields(want) {
				if got := fmt.Sprint(resp.StatusCode, " ", string(b), " ", time.Since(start)); !strings.Contains(got, part) {
					t.Errorf("%s: %s, not %s", path, got, want)
				}
			}
		}
		toActor[rp.RequestAbort](p)
		r.close()
		<-p.ended
	})
}

// TestRepeated: a request whose actor stops before it has answered is sent again if its body is small.
func TestRepeated(t *testing.T) {
	for size, want := range map[int]int{100: http.StatusOK, 1 << 20: http.StatusOK, 1<<20 + 1: http.StatusServiceUnavailable} {
		r := newRig(t, engine.Options{})
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		at, _ := p.started(id)
		var once sync.Once
		p.mu.Lock()
		p.reply = func(m rp.ToActor, b rp.RequestStart) {
			stops := false
			once.Do(func() { stops = true })
			if stops {
				p.event(at, rp.Stopped{})
			} else {
				p.toClient(m.ID.Tunnel, rp.ResponseStart{Status: 200, Body: fmt.Append(nil, len(b.Body))})
			}
		}
		p.mu.Unlock()
		if code, got := r.call("POST", "/gateway/"+id+"/", strings.Repeat("x", size)); code != want || code == http.StatusOK && got != fmt.Sprint(size) {
			t.Errorf("%d bytes: %d %s, not %d", size, code, got, want)
		}
		if n := r.engine.Held(); want == http.StatusOK && n != 0 {
			eventually(t, "all is given back", func() bool { return r.engine.Held() == 0 })
		}
	}
}

// TestManySockets: an actor that sleeps beside many sockets that hibernate has all of them when it is woken, and nothing is left when they
// have gone.
func TestManySockets(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		at, _ := p.started(id)
		open := map[rp.TunnelID]*websocket.Conn{}
		for range 300 {
			ws := r.dial("/gateway/"+id+"/connect", "rivet")
			open[toActor[rp.SocketOpen](p).ID.Tunnel] = ws
		}
		p.event(at, rp.Intent(rp.IntentSleep))
		p.toldToStop(id)
		synctest.Wait()
		r.want(http.StatusOK, "GET /x", "GET", "/gateway/"+id+"/x", "")
		_, start := p.started(id)
		if len(start.Hibernating) != len(open) {
			t.Errorf("it has %d sockets, not %d", len(start.Hibernating), len(open))
		}
		for tunnel, ws := range open {
			pair{p, ws, tunnel}.talk()
			p.toClient(tunnel, rp.SocketAck{Index: 1000}) // of all
			must(t, ws.CloseNow())
			if gone := toActor[rp.ClientClose](p); gone.ID.Tunnel != tunnel {
				t.Errorf("%v has gone, and the actor is told that of %v", tunnel, gone.ID.Tunnel)
			}
		}
		pass(time.Minute)
		if n := r.engine.Held(); n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
}

// TestSocketsBounded: of the WebSockets that may be open one address has half; requests are served all the same.
func TestSocketsBounded(t *testing.T) {
	r := newRig(t, engine.Options{MaxSockets: 4})
	p := r.connect("default", "k")
	id := r.actor("counter", "a")
	p.started(id)
	for range 2 {
		must(t, r.dial("/gateway/"+id+"/connect", "rivet").CloseNow())
	}
	eventually(t, "both are gone", func() bool { return r.open.Load() <= 2 })
	one, two := r.dial("/gateway/"+id+"/connect", "rivet"), r.dial("/gateway/"+id+"/connect", "rivet")
	if code, reason := closed(t, r.dial("/gateway/"+id+"/connect", "rivet")); code != 1011 || reason != "guard.service_unavailable" {
		t.Errorf("%d %s", code, reason)
	}
	r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
	must(t, one.CloseNow())
	must(t, two.CloseNow())
}
