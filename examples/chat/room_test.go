package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/client"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var (
	must  = testkit.Must // fails the test if an error is not nil
	quiet = slog.New(slog.DiscardHandler)
)

var lobby = host.Address{Type: roomType, Key: "lobby"}

// A house is a host with rooms, and its front.
type house struct {
	testing.TB
	engine kv.Engine
	slept  chan struct{}
	host   *host.Host
	front  *front.Front
	server atomic.Pointer[httptest.Server] // another one after a restart
	client *client.Client                  // of the server that there is
}

func newHouse(t *testing.T) *house {
	h := &house{TB: t, engine: memkv.New(), slept: make(chan struct{}, 1)}
	h.open()
	h.serve()
	t.Cleanup(h.close)
	var err error
	h.client, err = client.New("http://localhost", &client.Options{HTTP: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, h.server.Load().Listener.Addr().String())
		},
	}}})
	must(t, err)
	return h
}

func (h *house) open() {
	actor := Room()
	actor.Sleep = func(*host.Context) error {
		select {
		case h.slept <- struct{}{}:
		default:
		}
		return nil
	}
	var err error
	h.host, err = host.Open(context.Background(), h.engine, []*host.Type{actor}, &host.Options{IdleTimeout: time.Millisecond, Logger: quiet})
	must(h, err)
}

func (h *house) serve() {
	secret, err := front.StoredSecret(context.Background(), h.engine)
	must(h, err)
	h.front, err = front.New(h.host, &front.Options{WithoutToken: true, Secret: secret, Pages: Page(), Logger: quiet})
	must(h, err)
	h.server.Store(httptest.NewServer(h.front))
}

// close is a shutdown in good order.
func (h *house) close() {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience(time.Second))
	defer cancel()
	must(h, h.front.Shutdown(ctx))
	h.server.Load().Close()
	must(h, h.host.Close(ctx))
}

// A guest is a client in the lobby.
type guest struct {
	*client.Conn
	house *house
	heard chan message // what is said, in its order
}

func (h *house) join(name string) *guest {
	h.Helper()
	g := &guest{house: h, heard: make(chan message, 100)}
	var err error
	g.Conn, err = h.client.Actor(lobby).Connect(h.Context(), &client.ConnectOptions{Params: func() any { return hello{Name: name} }})
	must(h, err)
	go func() {
		err := client.Follow(context.Background(), g.Conn, &client.Feed[message]{
			Event: "message", Action: History.Name(), Number: func(m message) int64 { return m.ID }, Subscribed: true,
		}, func(m message) error { g.heard <- m; return nil })
		if !errors.Is(err, client.ErrClosed) {
			h.Error(err)
		}
		close(g.heard)
	}()
	return g
}

func (g *guest) say(text string) {
	g.house.Helper()
	_, err := client.Invoke(g.house.Context(), g, Say, saying{Text: text})
	must(g.house, err)
}

// TestChat: two talk, the room sleeps, the host restarts, and they go on.
func TestChat(t *testing.T) {
	h := newHouse(t)
	ann, bob := h.join("Ann"), h.join(" Bob ")
	want := []string{}
	round := func() {
		t.Helper()
		for i, g := range []*guest{ann, bob} {
			want = append(want, fmt.Sprint([]string{"Ann", "Bob"}[i], ": number ", len(want)+1))
			g.say(fmt.Sprint("number ", len(want)))
		}
	}
	round()
	<-h.slept
	round()
	h.close()
	h.open()
	_, err := Say.Call(t.Context(), h.host, "lobby", saying{Name: "Dan", Text: "anybody there?"}) // the others aren't
	must(t, err)
	want = append(want, "Dan: anybody there?")
	h.serve()
	round()
	carl := h.join("Carl")
	people, err := People.Call(t.Context(), h.host, "lobby", struct{}{})
	must(t, err)
	if !slices.Equal(slices.Sorted(slices.Values(people)), []string{"Ann", "Bob", "Carl"}) {
		t.Errorf("there are %q", people)
	}
	for name, g := range map[string]*guest{"Ann": ann, "Bob": bob, "Carl": carl} {
		for i, said := range want {
			if m := <-g.heard; m.ID != int64(i+1) || m.At == 0 || m.Name+": "+m.Text != said {
				t.Errorf("%s: message %d is %+v, want %q", name, i, m, said)
			}
		}
		g.Close()
		for m := range g.heard {
			t.Errorf("%s has heard %+v, too", name, m)
		}
	}
}

// TestSay: what may be said, and that a key says it once.
func TestSay(t *testing.T) {
	h := newHouse(t)
	say := func(s saying) (message, error) { return Say.Call(t.Context(), h.host, "lobby", s) }
	for range 3 {
		m, err := say(saying{Name: "Ann", Text: " hello ", Key: "k"})
		if err != nil || m.ID != 1 || m.Text != "hello" {
			t.Errorf("got %+v, %v", m, err)
		}
	}
	for i := range 2 {
		if m, err := say(saying{Name: "Ann", Text: "hello"}); err != nil || m.ID != int64(i+2) {
			t.Errorf("without a key: %+v, %v", m, err)
		}
	}
	for code, bad := range map[string][]saying{
		"bad_name": {{Text: "x"}, {Name: " ", Text: "x"}, {Name: strings.Repeat("ü", 41), Text: "x"}},
		"bad_text": {{Name: "Ann"}, {Name: "Ann", Text: " \n"}, {Name: "Ann", Text: strings.Repeat("ü", 2001)}, {Name: "Ann", Text: "x", Key: strings.Repeat("k", 65)}},
	} {
		for _, s := range bad {
			if _, err := say(s); host.Code(err) != code {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
	for code, params := range map[string]any{"bad_arguments": "Ann", "bad_name": nil} {
		if _, err := h.client.Actor(lobby).Connect(t.Context(), &client.ConnectOptions{Params: func() any { return params }}); host.Code(err) != code {
			t.Errorf("joins with %v: %v", params, err)
		}
	}
}

// TestHistory: it is whole, a page at a time, and a new guest gets the end of
// it.
func TestHistory(t *testing.T) {
	h := newHouse(t)
	const n = maxHistory*2 + 5
	for i := range n {
		_, err := Say.Call(t.Context(), h.host, "lobby", saying{Name: "Ann", Text: fmt.Sprint(i + 1)})
		must(t, err)
	}
	seen := int64(0)
	for {
		list, err := History.Call(t.Context(), h.host, "lobby", seen)
		must(t, err)
		for _, m := range list {
			if seen++; m.ID != seen || m.Text != fmt.Sprint(seen) {
				t.Fatalf("message %d is %+v", seen, m)
			}
		}
		if len(list) < maxHistory {
			break
		}
	}
	if seen != n {
		t.Errorf("%d messages, want %d", seen, n)
	}
	first := make(chan host.Raw, 1)
	bob, err := h.client.Actor(lobby).Connect(t.Context(), &client.ConnectOptions{
		Params: func() any { return hello{Name: "Bob"} }, OnEvent: func(_ string, body host.Raw) { first <- body },
	})
	must(t, err)
	defer bob.Close()
	var got []message
	must(t, (<-first).Decode(&got))
	if len(got) != maxHistory || got[0].ID != n-maxHistory+1 {
		t.Errorf("a new guest gets %d, from %+v", len(got), got[0])
	}
}

// TestPage: it is served whole, and asks for nothing from elsewhere.
func TestPage(t *testing.T) {
	h := newHouse(t)
	for path, want := range map[string]string{"/": `id="messages"`, "/chat.js": "./greenroom.js", "/greenroom.js": "greenroom.v1.json", "/chat.css": "#messages"} {
		resp, err := http.Get(h.server.Load().URL + path)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		csp := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != 200 || !strings.Contains(string(body), want) || !strings.Contains(csp, "default-src 'self'") {
			t.Errorf("%s: %d %v %.200s", path, resp.StatusCode, resp.Header, body)
		}
		for _, elsewhere := range []string{"http://", "https://", "innerHTML"} {
			if strings.Contains(string(body), elsewhere) {
				t.Errorf("%s has %s in it", path, elsewhere)
			}
		}
	}
}
