//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A fleetLoad is clients of three host processes on one database, round-robin: they count in counters, and each call is the same one, by its idempotency key, however often a
// client has to make it.
type fleetLoad struct {
	*testing.T
	url    string
	client *http.Client
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	hosts []*hostProcess // +checklocks:mu

	keys    atomic.Int64
	acked   [32]atomic.Int64 // by counter
	unknown atomic.Int64     // calls of which a host has said that it doesn't know what became of them
	resumed atomic.Int64     // sockets that went on at another host
	allowed map[int]bool     // statuses besides 503 after which a call is made again
}

func newFleetLoad(t *testing.T) *fleetLoad {
	n := pgtest.Shared(t)
	f := &fleetLoad{T: t, url: n.URL("schema=" + n.Schema()), client: &http.Client{Timeout: time.Minute}, allowed: map[int]bool{}}
	f.ctx, f.stop = context.WithCancel(t.Context())
	for range 3 {
		f.hosts = append(f.hosts, f.start())
	}
	return f
}

func (f *fleetLoad) start() *hostProcess {
	return startHost(f.T, "", "--demo", "--idle", "1h", f.url)
}

// host returns the host whose turn it is.
func (f *fleetLoad) host(n int) *hostProcess {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[n%len(f.hosts)]
}

// replace puts a new process in the place of a host that has ended.
func (f *fleetLoad) replace(i int) {
	p := f.start()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[i] = p
}

// run has clients call until stop: over HTTP, and over a socket each.
func (f *fleetLoad) run(callers, sockets int) {
	for i := range callers {
		f.work.Go(func() {
			for n := i; f.ctx.Err() == nil; n++ {
				f.call(n, n%len(f.acked), f.key())
			}
		})
	}
	for i := range sockets {
		f.work.Go(func() { f.listen(i) })
	}
}

// key returns the idempotency key of a new call.
func (f *fleetLoad) key() string { return fmt.Sprint("call ", f.keys.Add(1)) }

// call adds one to a counter at the host whose turn it is, or at another one.
func (f *fleetLoad) call(n, counter int, key string) {
	for ; ; n++ {
		p := f.host(n)
		r, err := http.NewRequestWithContext(context.WithoutCancel(f.ctx), http.MethodPost, fmt.Sprintf("%s/actors/counter/%d/actions/add", p.url, counter), bytes.NewReader([]byte("1")))
		if err != nil {
			f.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		answer, err := f.client.Do(r)
		if err != nil {
			continue // it is refused, or the connection has ended
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		switch {
		case err != nil, answer.StatusCode == http.StatusServiceUnavailable:
		case answer.StatusCode == http.StatusOK:
			f.acked[counter].Add(1)
			return
		case f.allowed[answer.StatusCode]:
			f.unknown.Add(1)
		default:
			f.Errorf("%s: %s %s", r.URL, answer.Status, text)
			return
		}
	}
}

// listen is a client with a socket: it calls, and resumes its connection elsewhere when its host has ended.
func (f *fleetLoad) listen(i int) {
	counter := i % len(f.acked)
	actor := fmt.Sprint("counter/", counter)
	n, first := i, hostMessage{Type: "connect"}
	for f.ctx.Err() == nil {
		s, m, err := f.host(n).dial(f.ctx, actor, first)
		if err != nil {
			if m.Code == "no_such_connection" {
				f.Errorf("the connection %s is gone", first.Conn)
				return
			}
			n++
			continue
		}
		if first.Type == "resume" {
			f.resumed.Add(1)
		}
		first = hostMessage{Type: "resume", Conn: s.conn, Token: s.token}
		err = f.talk(s, counter)
		_ = s.ws.CloseNow()
		if code := websocket.CloseStatus(err); f.ctx.Err() == nil && len(f.allowed) == 0 && code != websocket.StatusServiceRestart {
			f.Errorf("a socket ended with %v", err)
		}
		n++
	}
}

// talk calls over a socket until that ends. A call without a result is made again over HTTP.
func (f *fleetLoad) talk(s *hostSocket, counter int) error {
	for id := 1; f.ctx.Err() == nil; id++ {
		key := f.key()
		got, err := s.roundTrip(f.ctx, hostMessage{Type: "call", ID: id, Action: "add", Args: 1, IdempotencyKey: key}, "result")
		if err == nil {
			f.acked[counter].Add(1)
		} else {
			f.call(id, counter, key)
		}
		switch {
		case err == nil, got.Code == "shutting_down", got.Code == "host_unreachable", got.Code == "overloaded":
		case got.Code != "":
			if got.Code != "unknown_outcome" || len(f.allowed) == 0 {
				f.Error(err)
			}
		default:
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-f.ctx.Done():
		}
	}
	return nil
}

// check ends the load, and wants each counter to have what its clients know.
func (f *fleetLoad) check() {
	f.Helper()
	f.stop()
	f.work.Wait()
	total := int64(0)
	for i := range f.acked {
		want := f.acked[i].Load()
		total += want
		var sum int64
		if err := f.host(i).post(context.WithoutCancel(f.ctx), fmt.Sprintf("/actors/counter/%d/actions/add", i), 0, &sum); err != nil || sum != want {
			f.Errorf("counter %d is %d, and %d calls were answered: %v", i, sum, want, err)
		}
	}
	f.Logf("%d calls, %d made again since it was not known what became of them, %d sockets resumed", total, f.unknown.Load(), f.resumed.Load())
}

// after returns when so many calls more were answered.
func (f *fleetLoad) after(n int64) {
	f.Helper()
	sum := func() (sum int64) {
		for i := range f.acked {
			sum += f.acked[i].Load()
		}
		return sum
	}
	until := sum() + n
	for deadline := time.After(testkit.Patience(time.Minute)); sum() < until; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			f.Fatalf("%d calls were answered, want %d", sum(), until)
		}
	}
}

// TestFleetRolling: three hosts are restarted one after the other under load. No call fails for a client that tries another host after a refused connection or a 503, the outcome of
// none is unknown, a host that ends closes its own sockets with 1012, and no other one is closed.
func TestFleetRolling(t *testing.T) {
	f := newFleetLoad(t)
	callers, sockets, rounds, calls := 8, 6, 1, int64(300)
	if testkit.Long() {
		callers, sockets, rounds, calls = 150, 50, 6, 8_000
	}
	f.run(callers, sockets)
	for range rounds {
		for i := range 3 {
			f.after(calls)
			p := f.host(i)
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.ended:
			case <-time.After(testkit.Patience(30 * time.Second)):
				t.Fatalf("host %d doesn't end: %s", i, &p.stderr)
			}
			if p.err != nil {
				t.Errorf("host %d: %v %s", i, p.err, &p.stderr)
			}
			f.replace(i)
		}
	}
	f.after(calls)
	f.check()
	if f.unknown.Load() != 0 || f.resumed.Load() == 0 {
		t.Errorf("%d calls of unknown outcome, %d sockets resumed", f.unknown.Load(), f.resumed.Load())
	}
}

// TestFleetKilled: a host is killed under load. What was under way there may have been done, and is told to be so; the same calls made again count once, and all actors answer again
// when the lease is over.
func TestFleetKilled(t *testing.T) {
	f := newFleetLoad(t)
	f.allowed[http.StatusInternalServerError] = true // unknown_outcome
	f.run(8, 6)
	f.after(300)
	f.host(1).kill()
	for i := range f.acked { // each answers
		f.call(0, i, f.key())
	}
	f.replace(1)
	f.after(300)
	f.check()
}
