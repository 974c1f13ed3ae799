package js_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A runtime evaluates JavaScript, with the modules client and kills.
type runtime interface {
	// Eval returns what an expression is, as text, and waits if it is a promise.
	Eval(expression string) string
}

// A node is a process of Node.
type node struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
}

// socketFlags returns with what Node has WebSockets.
func socketFlags(t *testing.T, node string) []string {
	t.Helper()
	out, err := exec.Command(node, "-p", "typeof WebSocket").Output()
	testkit.Must(t, err)
	if strings.TrimSpace(string(out)) == "undefined" { // before version 22
		return []string{"--experimental-websocket", "--no-warnings"}
	}
	return nil
}

// newNode starts Node, which ends with the test. The test is skipped where Node is missing.
func newNode(t *testing.T) *node {
	path, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("Node is missing: %v", err)
	}
	args := append(socketFlags(t, path), filepath.Join("testdata", "eval.js"))
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(30*time.Second))
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	testkit.Must(t, err)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	n := &node{t, in, bufio.NewScanner(out)}
	n.lines.Buffer(nil, 16<<20)
	t.Cleanup(func() {
		testkit.Must(t, in.Close())
		_ = cmd.Wait() // the context has ended it, perhaps
		cancel()
	})
	return n
}

// Eval implements runtime.
func (n *node) Eval(expression string) string {
	n.t.Helper()
	_, err := fmt.Fprintln(n.in, strings.Join(strings.Fields(expression), " "))
	testkit.Must(n.t, err)
	if !n.lines.Scan() {
		n.t.Fatalf("Node has ended: %v", n.lines.Err())
	}
	text := n.lines.Text()
	var s string
	if json.Unmarshal([]byte(text), &s) == nil {
		return s
	}
	return text
}

// An entry is a row of a ledger.
type entry struct {
	ID   int64  `json:"id"`
	Word string `json:"word"`
}

// ledger keeps each word that is added, also one that it has, and tells its connections.
func ledger() *host.Type {
	return &host.Type{
		Name: "ledger",
		Create: func(c *host.Context) error {
			_, err := c.Exec(`create table entry(id integer primary key, word text not null)`)
			return err
		},
		Connect: func(*host.Context, *host.Conn) error { return nil },
		Actions: []host.AnyAction{
			host.NewAction("add", func(c *host.Context, word string) (entry, error) {
				if word == "" {
					return entry{}, &host.Error{Code: "no_word", Message: "A word has letters."}
				}
				all, err := entries(c, `insert into entry(word) values (?) returning id, word`, word)
				if err != nil {
					return entry{}, err
				}
				return all[0], c.Broadcast("entry", all[0])
			}),
			host.NewAction("entries", func(c *host.Context, since int64) ([]entry, error) {
				return entries(c, `select id, word from entry where id > ? order by id limit 50`, since)
			}),
			host.NewCommand("leave", func(c *host.Context, _ struct{}) error { return c.Conn().Disconnect("enough") }),
		},
	}
}

func entries(c *host.Context, query string, arg any) (all []entry, err error) {
	rows, err := c.Query(query, arg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = []entry{}
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.ID, &e.Word); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// serve returns the address of a host in this process.
func serve(t *testing.T, o *front.Options, more ...*host.Type) string {
	h, err := host.Open(t.Context(), memkv.New(), append(more, ledger()), nil)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, h.Close(context.Background())) })
	o.Secret = []byte(strings.Repeat("s", 32))
	f, err := front.New(h, o)
	testkit.Must(t, err)
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// failure is an expression for the code of an error, and whether it is to be tried again.
func failure(promise string) string {
	return `(` + promise + `).then(() => "none", (e) => e.code + " " + e.retryable)`
}

// TestCalls looks at what calls, tokens, bounds and signals do.
func TestCalls(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	base := serve(t, &front.Options{Tokens: []string{"a-secret-of-the-test"}})
	n.Eval(`globalThis.base = "` + base + `"; globalThis.a = { type: "ledger", key: "é/1" }; globalThis.o = { token: "a-secret-of-the-test", retries: 0 }`)
	n.Eval(`globalThis.c = client.connect(base, a, { token: async () => "a-secret-of-the-test", maxCalls: 3 })`)
	for _, test := range []struct{ expression, want string }{
		{`c.call("add", "one").then((e) => e.word + c.state)`, "oneconnected"},
		{`client.invoke(base, a, "entries", 0, { token: () => "a-secret-of-the-test" }).then((l) => l.length)`, "1"},
		{failure(`c.call("add", "")`), "no_word false"},
		{failure(`c.call("sing")`), "no_such_action false"},
		{failure(`c.call("add", "x".repeat(2 ** 20))`), "body_too_large false"},
		{failure(`client.invoke(base, a, "add", "x", { token: "wrong" })`), "unauthorized false"},
		{`Promise.allSettled([1, 2, 3, 4].map((i) => c.call("entries", i, { idempotent: true }))).then((l) => l.map((r) => r.reason?.code ?? "ok").join())`,
			"ok,ok,ok,too_many_calls"},
		{`c.call("add", "two", { idempotencyKey: "k" }).then((e) => c.call("add", "two", { idempotencyKey: "k" }).then((f) => f.id - e.id))`, "0"},
		{failure(`c.call("add", "three", { idempotencyKey: "k" })`), "idempotency_mismatch false"},
		{`c.call("add", "x", { signal: AbortSignal.abort("enough") }).catch((e) => e)`, "enough"},
		{`(() => { const s = new AbortController(); const p = c.call("entries", 0, { signal: s.signal }); s.abort("later"); return p.catch((e) => e); })()`, "later"},
		{failure(`(() => { const p = c.call("entries", 0); c.close(); return p; })()`), "closed false"},
		{failure(`c.call("entries", 0)`), "closed false"},
		{`new Promise((done) => client.connect(base, a, { token: "wrong" }).onState((state, { error }) => done(state + " " + error.code)))`, "closed unauthorized"},
	} {
		if got := n.Eval(test.expression); got != test.want {
			t.Errorf("%s is %q, want %q", test.expression, got, test.want)
		}
	}
}

// TestAnew has a host forget a connection while it shuts down, and end the next one: the client connects anew and is subscribed as before, and then is closed.
func TestAnew(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	h, err := host.Open(t.Context(), memkv.New(), []*host.Type{ledger()}, nil)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, h.Close(context.Background())) })
	var current atomic.Pointer[front.Front]
	// A front with another secret doesn't know the connections of the one before.
	begin := func(secret string) *front.Front {
		f, err := front.New(h, &front.Options{WithoutToken: true, Secret: []byte(strings.Repeat(secret, 32))})
		testkit.Must(t, err)
		return current.Swap(f)
	}
	begin("1")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	n.Eval(`globalThis.a = { type: "ledger", key: "a" }; globalThis.base = "` + s.URL + `"; globalThis.c = client.connect(base, a); globalThis.states = [];
		c.onState((state, { resumed, error }) => states.push([state, resumed, error?.code].join(" ")));
		globalThis.fed = []; globalThis.more = () => {};
		c.feed({ event: "entry", action: "entries", since: 0, each: (e) => { fed.push(e.word); more(); } });
		globalThis.upTo = (n) => new Promise((done) => { (more = () => { if (fed.length >= n) done(fed.join()); })(); });`)
	n.Eval(`c.call("add", "one")`)
	old := begin("2")
	testkit.Must(t, old.Shutdown(t.Context()))
	n.Eval(`client.invoke(base, a, "add", "two")`)
	n.Eval(`c.call("add", "three")`)
	if got := n.Eval(`upTo(3)`); got != "one,two,three" {
		t.Errorf("fed %s", got)
	}
	n.Eval(`client.invoke(base, a, "add", "four")`) // comes as an event
	if got := n.Eval(`upTo(4)`); got != "one,two,three,four" {
		t.Errorf("fed %s", got)
	}
	n.Eval(`new Promise((done) => { c.onState(done); c.call("leave").catch(() => {}); })`)
	if got := n.Eval(`states.join()`); got != "connected false ,away  ,connected false ,closed  disconnected" {
		t.Errorf("the states were %s", got)
	}
}

// TestTooLarge has a host that takes less than the client thinks: the call that is too large fails, and the others don't.
func TestTooLarge(t *testing.T) {
	n := newNode(t)
	base := serve(t, &front.Options{WithoutToken: true, MaxBody: 1000})
	n.Eval(`globalThis.c = client.connect("` + base + `", { type: "ledger", key: "a" })`)
	got := n.Eval(`Promise.allSettled([1, 2000, 3].map((n) => c.call("add", "x".repeat(n)))).then((l) => l.map((r) => r.reason?.code ?? "ok").join())`)
	if got != "ok,body_too_large,ok" {
		t.Errorf("got %s", got)
	}
}

// TestSilent has a server that takes a socket and says nothing: the client gives it up, and comes with another one.
func TestSilent(t *testing.T) {
	n := newNode(t)
	var sockets shared
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"greenroom.v1.json"}})
		if err != nil {
			return // it has answered
		}
		_, first, _ := ws.Read(r.Context())
		if sockets.add(string(first)) == 1 {
			_, _, _ = ws.Read(r.Context()) // until the client gives up
			return
		}
		_ = ws.Write(r.Context(), websocket.MessageText, []byte(`{"type":"connected","conn":"1","token":"2"}`))
		_, _, _ = ws.Read(r.Context())
	}))
	t.Cleanup(s.Close)
	got := n.Eval(`new Promise((done) => {
		const states = [];
		const c = client.connect("` + s.URL + `", { type: "x", key: "y" }, { params: 7, answerTimeout: 50 });
		c.onState((state) => { states.push(state); if (state === "connected") c.close(); if (state === "closed") done(states.join()); });
	})`)
	// On a busy machine a second one may be too late, too.
	if all := sockets.take(); got != "away,connected,closed" || len(all) < 2 || slices.ContainsFunc(all, func(s string) bool { return s != `{"type":"connect","params":7}` }) {
		t.Errorf("got %s, with %q", got, all)
	}
}

// TestRetryAfter has a server refuse a call as a host does, and look at what comes again.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	var keys shared
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch keys.add(r.Header.Get("Idempotency-Key")) {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"busy","message":"Too much."}`)
		case 2:
			w.WriteHeader(http.StatusBadGateway) // of a proxy
		default:
			_, _ = io.WriteString(w, `7`)
		}
	}))
	defer s.Close()
	n.Eval(`globalThis.invoke = (options) => client.invoke("` + s.URL + `/base/", { type: "x", key: "y" }, "z", 1, options)`)
	got := n.Eval(`(() => { const t = Date.now(); return invoke().then((v) => v + " " + (Date.now() - t >= 1000)); })()`)
	if all := keys.take(); got != "7 true" || len(all) != 3 || all[0] == "" || all[1] != all[0] || all[2] != all[0] {
		t.Errorf("got %s, with keys %q", got, all)
	}
	got = n.Eval(failure(`invoke({ idempotencyKey: null })`))
	// The first answer says that nothing was done, the second one doesn't.
	if all := keys.take(); got != "unknown_outcome false" || len(all) != 2 || all[0] != "" {
		t.Errorf("without a key: %s, with keys %q", got, all)
	}
}

// shared are texts, for several goroutines.
type shared struct {
	mu  sync.Mutex
	all []string // +checklocks:mu
}

// add adds one, and returns how many there are.
func (s *shared) add(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, text)
	return len(s.all)
}

// take returns them, and has none any more.
func (s *shared) take() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.all = s.all, nil
	return all
}
