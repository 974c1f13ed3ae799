package front

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A stage is a front on connections in memory, whose clients have addresses to choose. In
// its bubble time passes when everybody waits, and every goroutine ends before the test.
type stage struct {
	*testing.T
	front  *Front
	server *http.Server
	dials  *pipes
	served chan error
}

// onStage runs fn with a front on a stage. When fn has returned the front, which must not
// be under way with anything any more, is shut down.
func onStage(t *testing.T, opts Options, a *host.Type, fn func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		opts.WithoutToken, opts.Logger = true, quiet
		opts.Secret = make([]byte, minSecret)
		engine := memkv.New()
		h, err := host.Open(context.Background(), engine, []*host.Type{a}, &host.Options{Logger: quiet, TurnTimeout: time.Hour})
		must(t, err)
		f, err := New(h, &opts)
		must(t, err)
		s := &stage{T: t, front: f, server: f.Server(), dials: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, served: make(chan error, 1)}
		go func() { s.served <- s.server.Serve(s.dials) }()
		fn(s)
		must(t, f.Shutdown(t.Context()))
		must(t, s.server.Close())
		<-s.served
		n, held := s.waitedFor()
		f.mu.Lock()
		if n+len(f.transfers.from)+f.calls+f.open+f.requests != 0 || held != 0 {
			t.Errorf("left are %d transfers of %d addresses with %d bytes, %d calls, %d sockets, %d requests",
				n, len(f.transfers.from), held, f.calls, f.open, f.requests)
		}
		f.mu.Unlock()
		must(t, h.Close(context.Background()))
		must(t, engine.Close())
	})
}

// An addrConn comes from an address.
type addrConn struct {
	localConn
	from string
}

func (c addrConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}

// dial opens a connection from an address.
func (s *stage) dial(from string) net.Conn {
	s.Helper()
	c, server := net.Pipe()
	s.dials.conns <- addrConn{localConn{server}, from}
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// waitedFor returns how many transfers there are, and what they hold.
func (s *stage) waitedFor() (n int, held int64) {
	ts := &s.front.transfers
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.list.Len(), ts.held
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// promise is the beginning of a call with a body of so many bytes.
func promise(action string, length int) string {
	return fmt.Sprintf("POST /actors/room/a/actions/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", action, length)
}

// ask sends text over a connection, and returns the answer when it comes. Its status is 0
// if the connection is closed instead.
func (s *stage) ask(c net.Conn, text string) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		if _, err := io.WriteString(c, text); err != nil {
			got <- answer{code: err.Error()}
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			got <- answer{code: err.Error()}
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			got <- answer{code: err.Error()}
			return
		}
		a := answer{status: resp.StatusCode, body: string(b), retry: resp.Header.Get("Retry-After") != "", at: time.Now()}
		if a.status >= 400 {
			a.code = problemOf(s, a.body)
		}
		got <- a
	}()
	return got
}

type answer struct {
	status     int
	code, body string
	retry      bool
	at         time.Time
}

// well says that a client with a body that comes at once is answered, at once.
func (s *stage) well(from string) {
	s.Helper()
	before := time.Now()
	a := <-s.ask(s.dial(from), promise("echo", 1)+"7")
	synctest.Wait() // its answer isn't a transfer any more
	if a.status != 200 || a.body != "7" {
		s.Errorf("another client of %s: %+v", from, a)
	}
	if d := time.Since(before); d != 0 {
		s.Errorf("another client of %s waited for %v", from, d)
	}
}

// count counts what has come so far, by status and code.
func count(all []<-chan answer) map[string]int {
	synctest.Wait()
	got := map[string]int{}
	for _, c := range all {
		select {
		case a := <-c:
			got[fmt.Sprint(a.status, " ", a.code, " ", a.retry)]++
		default:
		}
	}
	return got
}

// TestSlowBodies: however many clients promise bodies and don't send them, others are
// answered at once, also from the same address, and those are told that they were slow.
func TestSlowBodies(t *testing.T) {
	onStage(t, Options{MaxCalls: 1, MaxTransfers: 8, MaxTransfersPerAddress: 8}, room(nil), func(s *stage) {
		var slow []<-chan answer
		for i := range 24 {
			slow = append(slow, s.ask(s.dial(fmt.Sprintf("10.0.0.%d:1", i%2)), promise("echo", 10)))
			synctest.Wait()
			s.well("10.0.0.1:2")
			s.well("10.0.0.9:2")
		}
		// The newest of them are still there, but for what made room for the others.
		if got := count(slow); got["503 busy true"] != 17 || len(got) != 1 {
			s.Errorf("before their time is over: %v", got)
		}
		pass(10 * time.Second)
		if got := count(slow); got["408 timeout false"] != 7 || len(got) != 1 {
			s.Errorf("when their time is over: %v", got)
		}
	})
}

// TestSlowAddress: one address has no more than its share, and so many of IPv6 are one.
func TestSlowAddress(t *testing.T) {
	onStage(t, Options{MaxTransfers: 8}, room(nil), func(s *stage) {
		other := s.ask(s.dial("10.0.0.2:1"), promise("echo", 10))
		var slow []<-chan answer
		for i := range 20 {
			slow = append(slow, s.ask(s.dial(fmt.Sprintf("[2001:db8::%x:1]:1", i+1)), promise("echo", 10)))
			synctest.Wait()
		}
		if got := count(slow); got["429 too_many_requests true"] != 18 || len(got) != 1 {
			s.Errorf("of one network: %v", got)
		}
		select {
		case a := <-other:
			s.Errorf("of another address: %+v", a)
		default:
		}
		pass(10 * time.Second)
		if got := count(append(slow, other)); got["408 timeout false"] != 3 {
			s.Errorf("when their time is over: %v", got)
		}
	})
}

// TestBodyRate: a body may take its time as long as it moves, and a trickle isn't enough.
func TestBodyRate(t *testing.T) {
	onStage(t, Options{MinRate: 1000, HeaderTimeout: 5 * time.Second, BodyTimeout: time.Minute}, room(nil), func(s *stage) {
		for _, c := range []struct {
			rate int // bytes each second
			want time.Duration
			code int
		}{
			{2000, 20 * time.Second, 200},
			{10, 5 * time.Second, 408},
			{600, 11 * time.Second, 408},
		} {
			began := time.Now()
			conn := s.dial("10.0.0.1:1")
			body := `"` + strings.Repeat("x", 40_000-2) + `"`
			got := s.ask(conn, promise("echo", len(body)))
			for synctest.Wait(); body != "" && len(got) == 0; synctest.Wait() {
				pass(time.Second)
				n := min(c.rate, len(body))
				if _, err := io.WriteString(conn, body[:n]); err != nil {
					break
				}
				body = body[n:]
			}
			a := <-got
			if d := a.at.Sub(began).Truncate(time.Second); a.status != c.code || d != c.want {
				s.Errorf("%d bytes a second: %d %s after %v, want %d after %v", c.rate, a.status, a.code, d, c.code, c.want)
			}
		}
	})
}

// TestBodyMemory: what bodies that stand still hold is bounded, and the first ones make
// room for others.
func TestBodyMemory(t *testing.T) {
	onStage(t, Options{MaxBody: 64 << 10, MaxTransferBytes: 256 << 10}, room(nil), func(s *stage) {
		var slow []<-chan answer
		for i := range 16 {
			slow = append(slow, s.ask(s.dial(fmt.Sprintf("10.0.0.%d:1", i)), promise("echo", 60<<10)+`"`+strings.Repeat("x", 50<<10)))
			s.well("10.0.0.1:2")
			if _, held := s.waitedFor(); held > 256<<10 {
				s.Errorf("after %d: %d bytes are held", i, held)
			}
		}
		if got := count(slow); got["503 busy true"] < 10 || len(got) != 1 {
			s.Errorf("got %v", got)
		}
		pass(time.Minute)
		count(slow)
	})
}

// TestBodiesShutdown: a shutdown waits for no body.
func TestBodiesShutdown(t *testing.T) {
	onStage(t, Options{}, room(nil), func(s *stage) {
		slow := []<-chan answer{s.ask(s.dial("10.0.0.1:1"), promise("echo", 10))}
		synctest.Wait()
		before := time.Now()
		must(s, s.front.Shutdown(s.Context()))
		if d := time.Since(before); d != 0 {
			s.Errorf("it took %v", d)
		}
		if got := count(slow); got["503 shutting_down true"] != 1 {
			s.Errorf("got %v", got)
		}
	})
}

// TestSlowResults: clients that don't take their results hold up no other client, and are
// cut off.
func TestSlowResults(t *testing.T) {
	a := room(nil)
	ready := 0
	a.Actions = append(a.Actions, host.NewAction("big", func(*host.Context, host.Raw) (string, error) {
		ready++
		return strings.Repeat("x", 1<<20), nil
	}))
	onStage(t, Options{MaxCalls: 1, MaxTransfers: 4, MaxTransfersPerAddress: 4}, a, func(s *stage) {
		var slow []net.Conn
		for range 8 {
			c := s.dial("10.0.0.1:1")
			_, err := io.WriteString(c, promise("big", 1)+"1")
			must(s, err)
			slow = append(slow, c)
			synctest.Wait()
			s.well("10.0.0.1:2")
			s.well("10.0.0.2:2")
		}
		if ready != 8 {
			s.Errorf("%d calls were done", ready)
		}
		pass(10 * time.Second) // WriteTimeout
		synctest.Wait()
		for i, c := range slow {
			if b, err := io.ReadAll(c); err != nil || len(b) > 100<<10 {
				s.Errorf("client %d got %d bytes, %v", i, len(b), err)
			}
		}
		// One that takes it slowly, but faster than MinRate, gets it all.
		c := s.dial("10.0.0.1:3")
		_, err := io.WriteString(c, promise("big", 1)+"1")
		must(s, err)
		n := 0
		for buf := make([]byte, 32<<10); n < 1<<20; {
			got, err := c.Read(buf)
			must(s, err)
			n += got
			pass(200 * time.Millisecond)
		}
	})
}

// socket opens a socket from an address, and connects with text unless that is empty.
func (s *stage) socket(from, text string) (*websocket.Conn, error) {
	c := s.dial(from)
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
	ws, _, err := websocket.Dial(s.Context(), "http://localhost/actors/room/a/connect", &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = ws.CloseNow() })
	if text == "" {
		return ws, nil
	}
	if err := ws.Write(s.Context(), websocket.MessageText, []byte(text)); err != nil {
		return nil, err
	}
	_, b, err := ws.Read(s.Context())
	if err == nil && !bytes.Contains(b, []byte(`"type":"connected"`)) {
		err = errors.New(string(b))
	}
	return ws, err
}

// TestSlowSockets: sockets whose clients say nothing keep no other client from connecting,
// and those that stop within a message are cut off.
func TestSlowSockets(t *testing.T) {
	onStage(t, Options{MaxSockets: 1, PingInterval: time.Hour, MaxTransfers: 8, MaxTransfersPerAddress: 4}, room(nil), func(s *stage) {
		for i := range 24 {
			_, err := s.socket(fmt.Sprintf("10.0.0.%d:1", i%3), "")
			must(s, err)
		}
		late, err := s.socket("10.0.0.2:3", "")
		must(s, err)
		ws, err := s.socket("10.0.0.1:2", `{"type":"connect"}`)
		must(s, err)
		must(s, late.Write(s.Context(), websocket.MessageText, []byte(`{"type":"connect"}`)))
		if _, b, err := late.Read(s.Context()); err != nil || !bytes.Contains(b, []byte(`"code":"busy"`)) {
			s.Errorf("one that was open before: %s, %v", b, err)
		}
		if _, err := s.socket("10.0.0.2:2", `{"type":"connect"}`); err == nil {
			s.Error("there are more sockets than may be")
		}
		pass(11 * time.Second) // HeaderTimeout: the others have gone
		synctest.Wait()
		if n, _ := s.waitedFor(); n != 0 {
			s.Errorf("%d are waited for", n)
		}
		// A message that is begun has to come; one that isn't needn't.
		pass(25 * time.Second)
		w, err := ws.Writer(s.Context(), websocket.MessageText)
		must(s, err)
		_, err = w.Write([]byte(`{"type":"call",` + strings.Repeat(" ", 8<<10)))
		must(s, err)
		synctest.Wait()
		if n, _ := s.waitedFor(); n != 1 {
			s.Errorf("%d are waited for, want 1", n)
		}
		before := time.Now()
		for err = nil; err == nil; {
			_, _, err = ws.Read(s.Context())
		}
		if d := time.Since(before).Truncate(time.Second); d != 10*time.Second {
			s.Errorf("it was cut off after %v", d)
		}
	})
}
