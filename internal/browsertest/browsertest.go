// Package browsertest has tests look at pages in a real browser: Chromium, without a window.
package browsertest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// Tests fail on a machine without Chromium if the variable requireChromium is set.
const requireChromium = "GREENROOM_REQUIRE_CHROMIUM"

// A Browser is a profile of its own in Chromium, which a test tells what to do over the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/). It is used by one goroutine at a time.
type Browser struct {
	t       *testing.T
	ctx     context.Context
	ws      *websocket.Conn
	id      int
	profile string // the id of its browser context
}

// chromium is the process that all tests of a package share: to start it costs more than most tests do in it.
var chromium struct {
	once sync.Once
	url  string // where it listens
	err  error
}

// devTools is in the line with which Chromium says where it listens.
var devTools = regexp.MustCompile(`DevTools listening on (ws://\S+)`)

// New returns a profile that ends with the test, in a Chromium that ends with the last test: the package's TestMain must be testkit.Main. On a machine without Chromium it
// skips the test, or fails it if GREENROOM_REQUIRE_CHROMIUM is set.
func New(t *testing.T) *Browser {
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv(requireChromium) != "" {
			t.Fatal(err)
		}
		t.Skipf("there is no Chromium (Debian's package chromium): %v", err)
	}
	dir := filepath.Join(testkit.SharedDir(t), "chromium")
	chromium.once.Do(func() { chromium.url, chromium.err = start(path, dir) })
	testkit.Must(t, chromium.err)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(20*time.Second))
	t.Cleanup(cancel)
	b, err := dial(ctx)
	testkit.Must(t, err)
	b.t = t
	t.Cleanup(func() { _ = b.ws.CloseNow() }) // upon which the profile and its pages end
	result, err := b.call("", "Target.createBrowserContext", map[string]any{"disposeOnDetach": true})
	testkit.Must(t, err)
	var got struct{ BrowserContextID string }
	testkit.Must(t, json.Unmarshal(result, &got))
	b.profile = got.BrowserContextID
	return b
}

// start starts Chromium with a folder of its own, and returns where it listens.
func start(path, dir string) (url string, err error) {
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-background-timer-throttling",
		"--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--remote-debugging-port=0", "--user-data-dir="+dir, "about:blank")
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	late := time.AfterFunc(testkit.Patience(20*time.Second), func() { _ = cmd.Process.Kill() }) // then the scan below ends
	defer late.Stop()
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		m := devTools.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		said := make(chan struct{})
		go func() {
			defer close(said)
			_, _ = io.Copy(io.Discard, stderr)
		}()
		testkit.AtEnd(func() error { return end(cmd, said) })
		return m[1], nil
	}
	return "", fmt.Errorf("chromium hasn't started: %w", errors.Join(lines.Err(), cmd.Process.Kill(), cmd.Wait()))
}

// end ends Chromium in good order, so that its folder can be removed, or kills it. said is closed when it has nothing more to say.
func end(cmd *exec.Cmd, said <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience(10*time.Second))
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	b, err := dial(ctx)
	if err == nil {
		_, _ = b.call("", "Browser.close", nil) // it may end before it answers
	}
	<-said
	return errors.Join(err, cmd.Wait())
}

// dial connects to Chromium.
func dial(ctx context.Context) (*Browser, error) {
	ws, _, err := websocket.Dial(ctx, chromium.url, nil)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(16 << 20)
	return &Browser{ctx: ctx, ws: ws}, nil
}

// call calls a method, of a page if session isn't empty, and waits for its result.
func (b *Browser) call(session, method string, params any) (json.RawMessage, error) {
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

// A Tab is a page of the browser.
type Tab struct {
	*Browser
	session string
}

// Open opens a page, and waits until it is loaded.
func (b *Browser) Open(url string) *Tab {
	b.t.Helper()
	var target struct{ TargetID, SessionID string }
	for _, step := range []struct {
		method string
		params func() any
	}{
		{"Target.createTarget", func() any { return map[string]any{"url": url, "browserContextId": b.profile} }},
		{"Target.attachToTarget", func() any { return map[string]any{"targetId": target.TargetID, "flatten": true} }},
	} {
		result, err := b.call("", step.method, step.params())
		testkit.Must(b.t, err)
		testkit.Must(b.t, json.Unmarshal(result, &target))
	}
	p := &Tab{b, target.SessionID}
	p.loaded(`location.href !== "about:blank"`)
	return p
}

// loaded waits until a page is loaded on which a condition holds.
func (p *Tab) loaded(condition string) {
	p.t.Helper()
	p.Until(`document.readyState === "complete" && ` + condition)
}

// errGone says that the page has gone on which something was evaluated.
var errGone = errors.New("the page has gone")

// evaluate returns what an expression is, and waits if it is a promise. The error is errGone, or of a browser that doesn't answer, or the exception.
func (p *Tab) evaluate(expression string) (any, error) {
	result, err := p.call(p.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true})
	if err != nil {
		for _, text := range []string{"context was destroyed", "navigated or closed", "find default execution context"} {
			if strings.Contains(err.Error(), text) {
				return nil, errGone
			}
		}
		return nil, err
	}
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := json.Unmarshal(result, &got); err != nil {
		return nil, err
	}
	if e := got.ExceptionDetails; e != nil {
		return nil, fmt.Errorf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	return got.Result.Value, nil
}

// Eval returns what an expression of JavaScript is, as text, and waits if it is a promise. An exception fails the test.
func (p *Tab) Eval(expression string) string {
	p.t.Helper()
	v, err := p.evaluate(expression)
	testkit.Must(p.t, err)
	return fmt.Sprint(v)
}

// Until waits until a condition holds, an expression of JavaScript that is looked at whenever the page changes, and on the page that comes next when this one goes.
// An exception fails the test.
func (p *Tab) Until(condition string) {
	p.t.Helper()
	for {
		_, err := p.evaluate(until(condition))
		if err == nil {
			return
		}
		if err != errGone {
			p.t.Fatal(err)
		}
	}
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

// Quoted is a text as JavaScript writes it.
func Quoted(s string) string {
	b, _ := json.Marshal(s) // it never fails for a string
	return string(b)
}

// Look is how a page is shown.
type Look struct {
	Width, Height int // of the window, in CSS pixels
	Dark          bool
}

// Shown shows the page as look says.
func (p *Tab) Shown(look Look) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": look.Width, "height": look.Height, "deviceScaleFactor": 1, "mobile": false})
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// Screenshot returns what the window shows, as a PNG.
func (p *Tab) Screenshot() []byte {
	p.t.Helper()
	var got struct{ Data string }
	testkit.Must(p.t, json.Unmarshal(p.do("Page.captureScreenshot", map[string]any{"format": "png"}), &got))
	png, err := base64.StdEncoding.DecodeString(got.Data)
	testkit.Must(p.t, err)
	return png
}

// Go has the page show another URL, and waits until it is loaded.
func (p *Tab) Go(url string) {
	p.t.Helper()
	p.Eval(`window.left = true`)
	p.do("Page.navigate", map[string]any{"url": url})
	p.loaded(`window.left === undefined`)
}

// do calls a method that succeeds.
func (p *Tab) do(method string, params any) json.RawMessage {
	p.t.Helper()
	result, err := p.call(p.session, method, params)
	testkit.Must(p.t, err)
	return result
}
