package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// largest is how many bytes a body may have.
const largest = 20 << 20

// post sends an actor a request, whatever the answer, and returns a function that waits for that.
func (r *rig) post(id string, body io.Reader) (wait func()) {
	var all sync.WaitGroup
	all.Go(func() {
		resp, err := r.client.Post(r.url+"/gateway/"+id+"/", "text/plain", body)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // it may be cut off
			_ = resp.Body.Close()
		}
	})
	return all.Wait
}

// actorOf makes an actor that runners of a name run.
func (r *rig) actorOf(key, runner string) string {
	r.Helper()
	text := r.want(http.StatusOK, "actor_id", "PUT", "/actors", fmt.Sprintf(`{"name":"counter","key":%q,"runner_name_selector":%q}`, key, runner))
	_, id, _ := strings.Cut(text, `"actor_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// A pair is a client and a runner, which talk over a socket.
type pair struct {
	p      *program
	ws     *websocket.Conn
	tunnel rp.TunnelID
}

// talk sends a small message to the actor, and one back.
func (c pair) talk() {
	c.p.Helper()
	must(c.p, c.ws.Write(c.p.Context(), websocket.MessageText, []byte("ping")))
	toActor[rp.SocketMessage](c.p)
	c.p.toClient(c.tunnel, rp.SocketMessage{Data: []byte("pong")})
	if got := c.p.text(c.ws); got != "pong" {
		c.p.Errorf("%q", got)
	}
}

// pair returns a pair, and a runner and an actor beside it.
func (r *rig) pair() (c pair, p *program, id string) {
	r.Helper()
	p, c.p = r.connect("default", "k"), r.connect("other", "l")
	id = r.actorOf("large", "default")
	p.started(id)
	small := r.actorOf("small", "other")
	c.p.started(small)
	c.ws, c.tunnel = c.p.socket(small)
	return c, p, id
}

// TestLargeBody: while a body of 20 MiB is stuck on its way from a client, to a runner or to a client, 1,000 messages of another
// actor pass. The clock of a bubble goes on only when everything waits, so the messages wait for nothing.
func TestLargeBody(t *testing.T) {
	body := strings.Repeat("x", testkit.Pick(largest/8, largest, largest))
	for name, stick := range map[string]func(r *rig, p *program, id string) (end func()){
		"from a client": func(r *rig, _ *program, id string) func() {
			from, to := io.Pipe()
			wait := r.post(id, from)
			_, err := io.WriteString(to, body[1:])
			must(r, err)
			return func() { must(r, to.Close()); wait() }
		},
		"to a runner": func(r *rig, p *program, id string) func() {
			p.mu.Lock()
			p.deaf = true // it reads one message more
			p.mu.Unlock()
			one, two := r.post(id, strings.NewReader(body)), r.post(id, strings.NewReader(body))
			return func() { must(r, p.ws.CloseNow()); one(); two() }
		},
		"to a client": func(r *rig, p *program, id string) func() {
			ws, tunnel := p.socket(id) // which isn't read
			p.toClient(tunnel, rp.SocketMessage{Data: []byte(body)})
			return func() { must(r, ws.CloseNow()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := quiet()
				opts.MaxQueued = 1 << 30
				r := &rig{TB: t, kv: memkv.New(), piped: true, opts: opts}
				r.start()
				c, p, id := r.pair()
				end := stick(r, p, id)
				synctest.Wait()
				start := time.Now()
				for range 1000 {
					c.talk()
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("the messages have waited %v", took)
				}
				end()
				r.close()
				<-p.ended
				<-c.p.ended
			})
		})
	}
}

// BenchmarkLargeBody sends an actor bodies, which it sends back, and reports the longest time of a small message of another actor,
// whose runner is another one, to its runner and back. All are in one process, in which a goroutine that only sleeps wakes up to
// ms-late later than it must: so much of ms-worst is the machine's.
func BenchmarkLargeBody(b *testing.B) {
	for name, size := range map[string]int{"1 byte": 1, "20 MiB": largest - 64} { // the answer says a little more
		b.Run(name, func(b *testing.B) {
			r := newRig(b, engine.Options{})
			c, p, id := r.pair()
			body := strings.Repeat("x", size)
			worst, n := time.Duration(0), 0
			late := lateness()
			for b.Loop() {
				var done atomic.Bool
				go func() {
					for start := time.Now(); time.Since(start) < 200*time.Millisecond; {
						r.post(id, strings.NewReader(body))()
						p.mu.Lock()
						p.heard = nil // it would keep the bodies
						p.mu.Unlock()
					}
					done.Store(true)
				}()
				for ; !done.Load(); n++ {
					start := time.Now()
					c.talk()
					worst = max(worst, time.Since(start))
				}
			}
			b.ReportMetric(float64(late().Microseconds())/1000, "ms-late")
			b.ReportMetric(float64(worst.Microseconds())/1000, "ms-worst")
			b.ReportMetric(float64(n)/float64(b.N), "messages/op")
		})
	}
}

// lateness begins to sleep again and again on a goroutine. The function that it returns ends that, and returns how much later than
// it must the goroutine woke at worst.
func lateness() func() time.Duration {
	stop, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		late := time.Duration(0)
		for {
			start := time.Now()
			select {
			case <-time.After(time.Millisecond):
				late = max(late, time.Since(start)-time.Millisecond)
			case <-stop:
				worst <- late
				return
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-worst
	}
}
