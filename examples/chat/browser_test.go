//go:build unix

package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

const (
	// requireChromium has TestBrowser fail where there is no Chromium.
	requireChromium = "GREENROOM_REQUIRE_CHROMIUM"
	// childStore tells a child process which store to serve.
	childStore = "GREENROOM_CHAT_STORE"
)

// TestServeChild is the process that is killed. It serves on the listener that it is
// given as its first extra file.
func TestServeChild(t *testing.T) {
	dir := os.Getenv(childStore)
	if dir == "" {
		t.Skip("it is for TestBrowser to run")
	}
	ln, err := net.FileListener(os.NewFile(3, "listener"))
	must(t, err)
	engine, err := pebblekv.Open(dir, nil)
	must(t, err)
	h, err := host.Open(t.Context(), engine, []*host.Type{Room()}, &host.Options{IdleTimeout: 10 * time.Millisecond})
	must(t, err)
	secret, err := front.StoredSecret(t.Context(), engine)
	must(t, err)
	f, err := front.New(h, &front.Options{WithoutToken: true, Secret: secret, Pages: Page()})
	must(t, err)
	must(t, f.Server().Serve(ln)) // until it is killed
}

// A served is the chat in a process of its own. Its port stays taken when it is killed.
type served struct {
	t    *testing.T
	dir  string
	url  string
	file *os.File // the listener
	cmd  *exec.Cmd
}

func newServed(t *testing.T) *served {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	file, err := ln.(*net.TCPListener).File()
	must(t, err)
	s := &served{t: t, dir: t.TempDir(), url: "http://" + ln.Addr().String(), file: file}
	must(t, ln.Close())
	s.start()
	t.Cleanup(func() {
		s.kill()
		must(t, file.Close())
	})
	return s
}

func (s *served) start() {
	s.cmd = exec.Command(os.Args[0], "-test.run=^TestServeChild$")
	s.cmd.Env = append(os.Environ(), childStore+"="+s.dir)
	s.cmd.ExtraFiles = []*os.File{s.file}
	s.cmd.Stdout, s.cmd.Stderr = os.Stderr, os.Stderr
	must(s.t, s.cmd.Start())
}

func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // that it was killed is no news
}

// A browser is Chromium, which is told what to do over the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/).
type browser struct {
	t   *testing.T
	ctx context.Context
	ws  *websocket.Conn
	id  int
}

// devTools is in the line with which Chromium says where it listens.
var devTools = regexp.MustCompile(`DevTools listening on (ws://\S+)`)

// newBrowser starts Chromium, or skips the test.
func newBrowser(t *testing.T) *browser {
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv(requireChromium) != "" {
			t.Fatal(err)
		}
		t.Skipf("there is no Chromium (Debian's package chromium): %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(20*time.Second))
	cmd := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-background-timer-throttling",
		"--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() {
		_, _ = b.call("", "Browser.close", nil) // in good order, so that its folder can be removed
		_, _ = io.Copy(io.Discard, stderr)
		_ = cmd.Wait()
		cancel()
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		m := devTools.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		b.ws, _, err = websocket.Dial(ctx, m[1], nil)
		must(t, err)
		b.ws.SetReadLimit(16 << 20)
		return b
	}
	t.Fatalf("Chromium hasn't started: %v", lines.Err())
	return nil
}

// call calls a method, of a page if session isn't empty, and waits for its result.
func (b *browser) call(session, method string, params any) (json.RawMessage, error) {
	if b.ws == nil {
		return nil, fmt.Errorf("%s: not connected", method)
	}
	b.id++
	type message struct {
		ID      int    `json:"id"`
		Session string `json:"sessionId,omitempty"`
		Method  string `json:"method,omitempty"`
		Params  any    `json:"params,omitempty"`
	}
	text, err := json.Marshal(message{b.id, session, method, params})
	if err != nil {
		return nil, err
	}
	if err := b.ws.Write(b.ctx, websocket.MessageText, text); err != nil {
		return nil, err
	}
	for {
		_, text, err := b.ws.Read(b.ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		var got struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		switch err := json.Unmarshal(text, &got); {
		case err != nil:
			return nil, err
		case got.ID != b.id: // an event
		case got.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, got.Error.Message)
		default:
			return got.Result, nil
		}
	}
}

// A tab is a page of the browser.
type tab struct {
	*browser
	session string
}

// open opens a page.
func (b *browser) open(url string) *tab {
	b.t.Helper()
	var target struct{ TargetID, SessionID string }
	for _, step := range []struct {
		method string
		params func() any
	}{
		{"Target.createTarget", func() any { return map[string]any{"url": url} }},
		{"Target.attachToTarget", func() any { return map[string]any{"targetId": target.TargetID, "flatten": true} }},
	} {
		result, err := b.call("", step.method, step.params())
		must(b.t, err)
		must(b.t, json.Unmarshal(result, &target))
	}
	p := &tab{b, target.SessionID}
	for {
		// The empty page, which may still be there, goes while it is asked.
		_, err := p.evaluate(until(`document.readyState === "complete" && location.href !== "about:blank"`))
		if err == nil {
			return p
		}
		if !strings.Contains(err.Error(), "context was destroyed") {
			b.t.Fatal(err)
		}
	}
}

// evaluate evaluates an expression, and waits if that is a promise.
func (p *tab) evaluate(expression string) (json.RawMessage, error) {
	return p.call(p.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true})
}

// eval evaluates an expression that is right.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	result, err := p.evaluate(expression)
	must(p.t, err)
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	must(p.t, json.Unmarshal(result, &got))
	if e := got.ExceptionDetails; e != nil {
		p.t.Fatalf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	return fmt.Sprint(got.Result.Value)
}

// until waits until a condition of the page holds.
func (p *tab) until(condition string) {
	p.t.Helper()
	p.eval(until(condition))
}

// until is a promise that a condition of the page holds.
func until(condition string) string {
	return `new Promise((done) => {
		const look = () => { if (` + condition + `) { watch.disconnect(); removeEventListener("load", look); done(); } };
		const watch = new MutationObserver(look);
		watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
		addEventListener("load", look);
		look();
	})`
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // it never fails for a string
	return string(b)
}

// fill fills in a form, and submits it.
func (p *tab) fill(form string, fields map[string]string) {
	p.t.Helper()
	for id, text := range fields {
		p.eval(`document.getElementById(` + quoted(id) + `).value = ` + quoted(text))
	}
	p.eval(`document.getElementById(` + quoted(form) + `).requestSubmit()`)
}

func (p *tab) status(text string) {
	p.t.Helper()
	p.until(`document.getElementById("status").textContent === ` + quoted(text))
}

// shown are those that the page shows and the room has.
const shown = `[...document.querySelectorAll("#messages li")].map((li) =>
	(li.dataset.id ?? "waiting") + " " + li.querySelector("b").textContent + ": " + li.lastChild.textContent).join("\n")`

// shows waits until the page shows exactly these messages.
func (p *tab) shows(want ...string) {
	p.t.Helper()
	p.until(shown + ` === ` + quoted(strings.Join(want, "\n")))
}

// TestBrowser has two pages talk in a real browser, while the host is killed and started
// again under them.
func TestBrowser(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	b := newBrowser(t)
	s := newServed(t)
	ann, bob := b.open(s.url), b.open(s.url)
	for p, name := range map[*tab]string{ann: "Ann", bob: "Bob"} {
		p.fill("join", map[string]string{"room": "the bar/1", "name": name})
		p.status("connected")
	}
	ann.fill("say", map[string]string{"text": "<b>hello</b>"})
	bob.shows("1 Ann: <b>hello</b>")
	bob.fill("say", map[string]string{"text": "hello, Ann"})
	ann.shows("1 Ann: <b>hello</b>", "2 Bob: hello, Ann")

	s.kill()
	ann.status("away")
	bob.status("away")
	ann.fill("say", map[string]string{"text": "are you there?"})
	ann.shows("1 Ann: <b>hello</b>", "2 Bob: hello, Ann", "waiting Ann: are you there?")
	s.start()
	ann.status("connected")
	bob.status("connected")
	bob.shows("1 Ann: <b>hello</b>", "2 Bob: hello, Ann", "3 Ann: are you there?")
	bob.fill("say", map[string]string{"text": "yes"})
	all := []string{"1 Ann: <b>hello</b>", "2 Bob: hello, Ann", "3 Ann: are you there?", "4 Bob: yes"}
	ann.shows(all...)
	bob.shows(all...)

	// They are the connections that they were, and who joins sees everything.
	resp, err := http.Post(s.url+"/actors/chat/the%20bar%2F1/actions/people", "application/json", nil)
	must(t, err)
	people, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	if got := string(people); got != `["Ann","Bob"]` && got != `["Bob","Ann"]` {
		t.Errorf("there are %s", got)
	}
	carl := b.open(s.url)
	carl.fill("join", map[string]string{"room": "the bar/1", "name": "Carl"})
	carl.shows(all...)
}
