package admin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// Pipes are a listener whose connections are in memory, so that a bubble has all that waits for them.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.over) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

// A served is a store that is served in a bubble.
type served struct {
	*testing.T
	store  *greenroom.Store
	server *admin.Server
	client *http.Client
}

// inServed runs fn with a store on the engine that is served in a bubble, with what actors returns, if it is there.
func inServed(t *testing.T, eng kv.Engine, actors func(t *testing.T) admin.Actors, fn func(s *served)) {
	synctest.Test(t, func(t *testing.T) {
		s := &served{T: t}
		var err error
		if s.store, err = greenroom.New(t.Context(), eng, nil); err != nil {
			t.Fatal(err)
		}
		ln := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		opts := &admin.Options{Logger: slog.New(slog.DiscardHandler), Tokens: []admin.Token{{Name: "graphs", Role: admin.RoleRead, Secret: readSecret}}}
		if actors != nil {
			opts.Actors = actors(t)
		}
		if s.server, err = admin.Serve(t.Context(), ln, s.store, opts); err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: ln.dial}
		s.client = &http.Client{Transport: transport}
		fn(s)
		transport.CloseIdleConnections()
		if err := errors.Join(s.server.Close(), s.store.Close()); err != nil {
			t.Error(err)
		}
	})
}

// put makes a commit of an actor.
func (s *served) put(name string) {
	s.Helper()
	s.update(name, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte("v")) })
}

func (s *served) update(name string, fn func(tx *greenroom.Tx) error) {
	s.Helper()
	a, err := s.store.Actor(s.Context(), name, nil)
	if err == nil {
		err = errors.Join(a.Update(s.Context(), fn), a.Close())
	}
	if err != nil {
		s.Fatal(err)
	}
}

// get asks for the events.
func (s *served) get(query string) *http.Response {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://greenroom/v1/events"+query, nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Header = bearer(readSecret)
	resp, err := s.client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	return resp
}

// A heard is what a client was sent: an event is "NAME DATA", a comment ":".
type heard struct {
	mu    sync.Mutex
	lines []string
	err   error // after the end
	over  chan struct{}
	body  io.Closer
}

// hear reads the events.
func (s *served) hear(query string) *heard {
	s.Helper()
	resp := s.get(query)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		s.Fatalf("%d %s", resp.StatusCode, got)
	}
	h := &heard{over: make(chan struct{}), body: resp.Body}
	go func() {
		defer close(h.over)
		defer resp.Body.Close()
		lines, name := bufio.NewScanner(resp.Body), ""
		for lines.Scan() {
			h.mu.Lock()
			switch field, value, _ := strings.Cut(lines.Text(), ":"); field {
			case "event":
				name = strings.TrimSpace(value)
			case "data":
				h.lines = append(h.lines, name+value)
			case "":
				if lines.Text() == ":" {
					h.lines = append(h.lines, ":")
				}
			}
			h.mu.Unlock()
		}
		h.err = lines.Err()
	}()
	synctest.Wait()
	return h
}

// take returns what was heard since the last call.
func (h *heard) take() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

func (h *heard) want(t *testing.T, want ...string) {
	t.Helper()
	if got := h.take(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// gone ends the stream as a client does.
func (h *heard) gone() {
	h.body.Close()
	<-h.over
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func commitOf(name string, seq int, attributes bool) string {
	text := fmt.Sprintf(`commit {"actor":%q,"id":"%v","seq":%d`, name, actorstore.IDFromName(name), seq)
	if attributes {
		text += `,"attributes":true`
	}
	return text + "}"
}

// TestEvents: a client is told of the actors that change, of each at most once in 250 ms, and that the stream is alive.
func TestEvents(t *testing.T) {
	inServed(t, memkv.New(), nil, func(s *served) {
		s.put("before")
		h := s.hear("")
		h.want(t)
		s.put("a")
		h.want(t, commitOf("a", 1, false))
		for range 3 {
			s.put("a")
		}
		s.put("b")
		s.update("b", func(tx *greenroom.Tx) error { return tx.Label("x", "y") })
		s.put("b")
		pass(249 * time.Millisecond)
		h.want(t)
		pass(time.Millisecond)
		h.want(t, commitOf("a", 4, false), commitOf("b", 3, true))
		pass(time.Second)
		if err := s.store.Drop(s.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		h.want(t, fmt.Sprintf(`drop {"actor":"a","id":"%v"}`, actorstore.IDFromName("a")))
		s.put("a")
		pass(time.Second)
		h.want(t, commitOf("a", 1, false))
		pass(12 * time.Second)
		h.want(t)
		pass(16 * time.Second)
		h.want(t, ":", ":")
		h.gone()
	})
}

// TestEventsOfSome: a client that names actors is told of no others, also if they don't exist yet.
func TestEventsOfSome(t *testing.T) {
	inServed(t, memkv.New(), nil, func(s *served) {
		h := s.hear("?actor=a&actor=id:" + actorstore.IDFromName("b").String())
		for _, name := range []string{"a", "b", "c"} {
			s.put(name)
		}
		pass(time.Second)
		h.want(t, commitOf("a", 1, false), commitOf("b", 1, false))
		h.gone()
		for query, want := range map[string]int{"?actor=": 400, "?actor=id:x": 400, "?nix=1": 400} {
			resp := s.get(query)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s: %d, want %d", query, resp.StatusCode, want)
			}
		}
		// A HEAD is over at once, and takes no stream's place.
		for range 100 {
			req, err := http.NewRequestWithContext(s.Context(), http.MethodHead, "http://greenroom/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = bearer(readSecret)
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("HEAD: %d", resp.StatusCode)
			}
		}
	})
}

// TestEventsSlow: a client that doesn't read is told that it has lost events, and of what comes afterwards. One that goes on not to read is cut off, and no commit waits for it.
func TestEventsSlow(t *testing.T) {
	inServed(t, memkv.New(), nil, func(s *served) {
		resp := s.get("")
		lines := bufio.NewReader(resp.Body)
		next := func() string {
			t.Helper()
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if name, ok := strings.CutPrefix(line, "event: "); ok {
					return strings.TrimSpace(name)
				}
			}
		}
		s.put("first")
		synctest.Wait() // it is on its way
		for i := range 1200 {
			s.put(fmt.Sprint(i))
		}
		pass(time.Second)
		for i := range 1200 {
			s.put(fmt.Sprint(i))
		}
		if got := next(); got != "commit" {
			t.Errorf("first %s", got)
		}
		if got := next(); got != "lost" {
			t.Errorf("then %s", got)
		}
		pass(time.Second)
		s.put("after")
		pass(time.Second)
		told := 0
		for ; ; told++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"actor":"after"`) {
				break
			}
		}
		if told > 3*1201 {
			t.Errorf("%d lines", told)
		}
		for i := range 100 {
			s.put(fmt.Sprint(i))
		}
		pass(time.Minute)
		if _, err := io.ReadAll(lines); err == nil {
			t.Error("a client that reads nothing for a minute isn't cut off")
		}
		resp.Body.Close()
	})
}

// TestEventsClose: Close ends all streams at once, also one whose client doesn't read.
func TestEventsClose(t *testing.T) {
	inServed(t, memkv.New(), nil, func(s *served) {
		h, deaf := s.hear(""), s.get("")
		for range 3 {
			s.put("a")
		}
		pass(time.Second)
		began := time.Now()
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
		<-h.over
		if h.err != nil {
			t.Errorf("the stream ends with %v", h.err)
		}
		deaf.Body.Close()
	})
}

// TestEventsBound: there are 64 streams at most, and one that has ended makes room.
func TestEventsBound(t *testing.T) {
	inServed(t, memkv.New(), nil, func(s *served) {
		var all []*heard
		for range 64 {
			all = append(all, s.hear("?actor=a"))
		}
		resp := s.get("")
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), `"overloaded"`) {
			t.Errorf("%d %s, %v", resp.StatusCode, text, err)
		}
		all[0].gone()
		synctest.Wait()
		all[0] = s.hear("?actor=a")
		s.put("a")
		for _, h := range all {
			h.want(t, commitOf("a", 1, false))
			h.gone()
		}
	})
}

// TestEventsFar: on an engine that other processes may have open, a client is told of what the host's own store commits, too, and once.
func TestEventsFar(t *testing.T) {
	eng := engines.Shared(memkv.New())
	var h *host.Host
	actors := func(t *testing.T) admin.Actors {
		var err error
		h, err = host.Open(t.Context(), eng, []*host.Type{{Name: "cell"}}, &host.Options{Logger: slog.New(slog.DiscardHandler), IdleTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	inServed(t, eng, actors, func(s *served) {
		events := s.hear("")
		if err := h.Create(s.Context(), host.Address{Type: "cell", Key: "a"}, nil); err != nil {
			t.Fatal(err)
		}
		s.put("a")
		pass(time.Second)
		if got := events.take(); len(got) != 2 || !strings.Contains(got[0], `"actor":"cell/a"`) || !strings.Contains(got[1], `"actor":"a"`) {
			t.Errorf("got %q", got)
		}
		events.gone()
		if err := h.Close(s.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
