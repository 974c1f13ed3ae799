//go:build unix

package chat

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/browsertest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestServeChild is the process that is killed.
func TestServeChild(t *testing.T) {
	dir, ln := testkit.Serve(t)
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

// A page is the chat in a browser.
type page struct{ *browsertest.Tab }

// fill fills in a form, and submits it.
func (p page) fill(form string, fields map[string]string) {
	for id, text := range fields {
		p.Eval(`document.getElementById(` + browsertest.Quoted(id) + `).value = ` + browsertest.Quoted(text))
	}
	p.Eval(`document.getElementById(` + browsertest.Quoted(form) + `).requestSubmit()`)
}

func (p page) status(text string) {
	p.Until(`document.getElementById("status").textContent === ` + browsertest.Quoted(text))
}

// shown are those that the page shows and the room has.
const shown = `[...document.querySelectorAll("#messages li")].map((li) =>
	(li.dataset.id ?? "waiting") + " " + li.querySelector("b").textContent + ": " + li.lastChild.textContent).join("\n")`

// shows waits until the page shows exactly these messages.
func (p page) shows(want ...string) {
	p.Until(shown + ` === ` + browsertest.Quoted(strings.Join(want, "\n")))
}

// TestBrowser has two pages talk in a real browser, while the host is killed and started
// again under them.
func TestBrowser(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	b := browsertest.New(t)
	s := testkit.NewServer(t, "TestServeChild")
	ann, bob := page{b.Open(s.URL)}, page{b.Open(s.URL)}
	for p, name := range map[page]string{ann: "Ann", bob: "Bob"} {
		p.fill("join", map[string]string{"room": "the bar/1", "name": name})
		p.status("connected")
	}
	ann.fill("say", map[string]string{"text": "<b>hello</b>"})
	bob.shows("1 Ann: <b>hello</b>")
	bob.fill("say", map[string]string{"text": "hello, Ann"})
	ann.shows("1 Ann: <b>hello</b>", "2 Bob: hello, Ann")

	s.Kill()
	ann.status("away")
	bob.status("away")
	ann.fill("say", map[string]string{"text": "are you there?"})
	ann.shows("1 Ann: <b>hello</b>", "2 Bob: hello, Ann", "waiting Ann: are you there?")
	s.Start()
	ann.status("connected")
	bob.status("connected")
	bob.shows("1 Ann: <b>hello</b>", "2 Bob: hello, Ann", "3 Ann: are you there?")
	bob.fill("say", map[string]string{"text": "yes"})
	all := []string{"1 Ann: <b>hello</b>", "2 Bob: hello, Ann", "3 Ann: are you there?", "4 Bob: yes"}
	ann.shows(all...)
	bob.shows(all...)

	// The connections are the same as before, and a new guest sees everything.
	resp, err := http.Post(s.URL+"/actors/chat/the%20bar%2F1/actions/people", "application/json", nil)
	must(t, err)
	people, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	if got := string(people); got != `["Ann","Bob"]` && got != `["Bob","Ann"]` {
		t.Errorf("there are %s", got)
	}
	carl := page{b.Open(s.URL)}
	carl.fill("join", map[string]string{"room": "the bar/1", "name": "Carl"})
	carl.shows(all...)

	// On a phone the newest message and the form stay in view.
	carl.Shown(browsertest.Look{Width: 360, Height: 640})
	carl.Eval(`(() => { for (let i = 0; i < 30; i++) {
		document.getElementById("text").value = "long ".repeat(20) + i;
		document.getElementById("say").requestSubmit();
	} })()`)
	carl.Until(`document.querySelectorAll("#messages li").length === 34 && !document.querySelector(".waiting")`)
	for _, id := range []string{`getElementById("text")`, `querySelector("#messages li:last-child")`, `getElementById("title")`} {
		if got := carl.Eval(`(() => { const r = document.` + id + `.getBoundingClientRect();
			return r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth && r.height > 0; })()`); got != "true" {
			t.Errorf("%s isn't in view", id)
		}
	}
}
