package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// must fails the test if err is not nil.
var must = testkit.Must

// A house is a host with rooms, and its front.
type house struct {
	testing.TB
	engine kv.Engine
	slept  chan struct{}
	host   *host.Host
	front  *front.Front
	server *httptest.Server
	guests []*guest
}

func newHouse(t *testing.T) *house {
	h := &house{TB: t, engine: memkv.New(), slept: make(chan struct{}, 1)}
	h.open()
	t.Cleanup(h.close)
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
	quiet := slog.New(slog.DiscardHandler)
	ctx := context.Background()
	var err error
	h.host, err = host.Open(ctx, h.engine, []*host.Type{actor}, &host.Options{IdleTimeout: time.Millisecond, Logger: quiet})
	must(h, err)
	secret, err := front.StoredSecret(ctx, h.engine)
	must(h, err)
	h.front, err = front.New(h.host, &front.Options{WithoutToken: true, Secret: secret, Pages: Page(), Logger: quiet})
	must(h, err)
	h.server = httptest.NewServer(h.front)
}

// close is a shutdown in good order, while the guests listen.
func (h *house) close() {
	for _, g := range h.guests {
		go func(ws *websocket.Conn) {
			for {
				if _, _, err := ws.Read(context.Background()); err != nil {
					return
				}
			}
		}(g.ws)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience(time.Second))
	defer cancel()
	must(h, h.front.Shutdown(ctx))
	h.server.Close()
	must(h, h.host.Close(ctx))
}

// A guest is a client in the lobby.
type guest struct {
	*house
	ws          *websocket.Conn
	conn, token string
	heard       []message // in the order in which they came, as far as the guest was there
}

// A wire is a message, in either direction.
type wire struct {
	Type    string          `json:"type"`
	ID      int             `json:"id,omitempty"`
	Action  string          `json:"action,omitempty"`
	Args    any             `json:"args,omitempty"`
	Params  any             `json:"params,omitempty"`
	Event   string          `json:"event,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
	Code    string          `json:"code,omitempty"`
	Conn    string          `json:"conn,omitempty"`
	Token   string          `json:"token,omitempty"`
	Message string          `json:"message,omitempty"`
}

// dial opens a socket with its first message, and returns the answer.
func (g *guest) dial(first wire) wire {
	g.Helper()
	if !slices.Contains(g.guests, g) {
		g.guests = append(g.guests, g)
	}
	var err error
	g.ws, _, err = websocket.Dial(g.Context(), g.server.URL+"/actors/chat/lobby/connect", nil)
	must(g, err)
	g.ws.SetReadLimit(1 << 20)
	g.send(first)
	return g.receive()
}

func (g *guest) send(m wire) {
	g.Helper()
	b, err := json.Marshal(m)
	must(g, err)
	must(g, g.ws.Write(g.Context(), websocket.MessageText, b))
}

func (g *guest) receive() (m wire) {
	g.Helper()
	_, b, err := g.ws.Read(g.Context())
	must(g, err)
	must(g, json.Unmarshal(b, &m))
	return m
}

// hear receives until a message of that type comes, and keeps what is said meanwhile.
func (g *guest) hear(kind string) wire {
	g.Helper()
	for {
		m := g.receive()
		switch m.Event {
		case "message":
			var one message
			must(g, json.Unmarshal(m.Body, &one))
			g.heard = append(g.heard, one)
		case "history":
			var list []message
			must(g, json.Unmarshal(m.Body, &list))
			g.heard = append(g.heard, list...)
		}
		if m.Type == kind || m.Event == kind {
			return m
		}
		if m.Type == "error" {
			g.Fatalf("got %+v", m)
		}
	}
}

func (h *house) join(name string) *guest {
	h.Helper()
	g := &guest{house: h}
	m := g.dial(wire{Type: "connect", Params: hello{Name: name}})
	if m.Type != "connected" {
		h.Fatalf("%s: %+v", name, m)
	}
	g.conn, g.token = m.Conn, m.Token
	g.hear("history")
	return g
}

func (g *guest) say(text string) {
	g.Helper()
	g.send(wire{Type: "call", ID: 1, Action: "say", Args: saying{Text: text}})
	g.hear("result")
}

// back takes the connection up again after a restart, with what was missed.
func (g *guest) back() {
	g.Helper()
	if m := g.dial(wire{Type: "resume", Conn: g.conn, Token: g.token}); m.Type != "connected" || m.Conn != g.conn {
		g.Fatalf("got %+v", m)
	}
	since := int64(0)
	if n := len(g.heard); n > 0 {
		since = g.heard[n-1].ID
	}
	g.send(wire{Type: "call", ID: 2, Action: "history", Args: since})
	var missed []message
	must(g, json.Unmarshal(g.hear("result").Body, &missed))
	g.heard = append(g.heard, missed...)
}

// TestChat: two talk, the room sleeps, the host restarts, and they go on.
func TestChat(t *testing.T) {
	h := newHouse(t)
	ann, bob := h.join("Ann"), h.join(" Bob ")
	want := []string{}
	round := func() {
		t.Helper()
		for _, g := range []*guest{ann, bob} {
			text := fmt.Sprintf("number %d", len(want)+1)
			g.say(text)
			want = append(want, text)
		}
		ann.hear("message") // of what Bob said; Bob has heard Ann before his own
	}
	round()
	<-h.slept
	round()
	h.close()
	h.open()
	ann.back()
	ann.say("anybody there?") // Bob isn't
	want = append(want, "anybody there?")
	bob.back()
	round()
	carl := h.join("Carl")
	for name, g := range map[string]*guest{"Ann": ann, "Bob": bob, "Carl": carl} {
		var got []string
		for i, m := range g.heard {
			got = append(got, m.Text)
			if m.ID != int64(i+1) || m.At == 0 {
				t.Errorf("%s: message %d is %+v", name, i, m)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s has heard %q, want %q", name, got, want)
		}
	}
	if names := []string{ann.heard[0].Name, ann.heard[1].Name}; !reflect.DeepEqual(names, []string{"Ann", "Bob"}) {
		t.Errorf("said by %q", names)
	}
	people, err := People.Call(t.Context(), h.host, "lobby", struct{}{})
	must(t, err)
	if len(people) != 3 {
		t.Errorf("there are %q", people)
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
	g := &guest{house: h}
	if m := g.dial(wire{Type: "connect", Params: "Ann"}); m.Code != "bad_arguments" {
		t.Errorf("got %+v", m)
	}
	must(t, g.ws.CloseNow())
	if m := g.dial(wire{Type: "connect"}); m.Code != "bad_name" {
		t.Errorf("got %+v", m)
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
	if got := h.join("Bob").heard; len(got) != maxHistory || got[0].ID != n-maxHistory+1 {
		t.Errorf("who joins gets %d, from %+v", len(got), got[0])
	}
}

// TestPage: it is served whole, and asks for nothing from elsewhere.
func TestPage(t *testing.T) {
	h := newHouse(t)
	for path, want := range map[string]string{"/": `id="messages"`, "/chat.js": "./greenroom.js", "/greenroom.js": "greenroom.v1.json", "/chat.css": "#messages"} {
		resp, err := h.server.Client().Get(h.server.URL + path)
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
