package inspector_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/browsertest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/queue"
)

// looks are how the pages are looked at: on a desk and in a hand, in the light and in the dark.
var looks = map[string]browsertest.Look{
	"light": {Width: 1200, Height: 900}, "dark": {Width: 1200, Height: 900, Dark: true}, "narrow": {Width: 360, Height: 740}, "narrow-dark": {Width: 360, Height: 740, Dark: true},
}

// visit opens a page as a visitor that follows a link with a token.
func (r *rig) visit(b *browsertest.Browser, path, secret string) *browsertest.Tab {
	r.Helper()
	p := b.Open(r.url + "/login?next=" + url.QueryEscape(path) + "#token=" + secret)
	p.Until(`document.readyState === "complete" && location.pathname !== "/login"`)
	return p
}

// TestBrowser looks at each view in a browser.
func TestBrowser(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	t.Parallel()
	b := browsertest.New(t)
	r := newRig(t)
	r.furnish("room", content{steps: 12})
	at := r.path("room")
	p := r.visit(b, at, readSecret)
	trace := r.trace(at)
	paths := map[string]string{
		"overview": "/", "actors": "/actors?label=label%3Dvalue", "trace": trace, "missing": at + "/tables/missing", "value": at + "/tables/t/cell?rowid=1&column=c",
		"table": at + "/tables/t", "actor": at,
	}
	for view := range views {
		if view != "" && view != "/tables/t" {
			paths[view[1:]] = at + view
		}
	}
	paths["key"] = at + keyLink.FindString(r.get(at+"/keys?prefix=user%2F"))
	r.look(t, p, paths, testkit.Long())
}

// look looks at pages: each as wide as the window, without anything that the page's own policy forbids, and with no rule of accessibility broken. It keeps pictures. If not all is looked
// at, each page has one look, and one half of them another one than the other half.
func (r *rig) look(t *testing.T, p *browsertest.Tab, paths map[string]string, all bool) {
	t.Helper()
	dir := t.ArtifactDir()
	var script string
	t.Run("axe", func(t *testing.T) { script = browsertest.Axe(t) })
	dark := false
	for name, path := range paths {
		p.Shown(looks["light"])
		p.Go(r.url + path)
		dark = !dark
		for look, as := range looks {
			if !all && look != map[bool]string{false: "light", true: "narrow-dark"}[dark] {
				continue
			}
			p.Shown(as)
			if got := p.Eval(`Math.max(0, document.documentElement.scrollWidth - innerWidth)`); got != "0" {
				t.Errorf("%s, %s: %s pixels don't fit into the window", name, look, got)
			}
			if script != "" {
				p.Accessible(script)
			}
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name+"-"+look+".png"), p.Screenshot(), 0o600))
		}
	}
}

// TestBrowserHostile: no name and no value of a store runs in a browser.
func TestBrowserHostile(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	t.Parallel()
	b := browsertest.New(t)
	r := newRig(t)
	const text = `"'></script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">{{.}}` + "\u202e"
	r.furnish("room"+text, content{text: text, long: text, steps: 1})
	at := r.path("room" + text)
	p := r.visit(b, at, readSecret)
	trace := strings.TrimPrefix(r.trace(at), at)
	for i, path := range []string{"", "/tables", "/tables/" + url.PathEscape("t"+text), "/sql?sql=" + url.QueryEscape(text), "/keys", "/queue", "/workflow", "/connections", "/state", trace} {
		if i%3 != 2 && !testkit.Long() {
			continue
		}
		p.Go(r.url + at + path)
		p.Eval(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
		got := p.Eval(`String(window.hacked) + document.querySelectorAll("img, main script:not([type])").length + document.body.textContent.includes("window.hacked")`)
		if got != "undefined0true" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestBrowserLive: a page shows what changes, without a request of its visitor, and keeps what is open.
func TestBrowserLive(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	t.Parallel()
	b := browsertest.New(t)
	r := newRig(t)
	r.furnish("room", content{steps: 1})
	p := r.visit(b, r.path("room")+"/queue", readSecret)
	p.Until(`document.getElementById("main").dataset.listens === "true"`)
	p.Eval(`document.querySelector("td details").open = true`)
	for _, name := range []string{"second", "third"} {
		r.actor("room", func(a *greenroom.Actor) error {
			return a.Update(t.Context(), func(tx *greenroom.Tx) error {
				_, err := tx.Enqueue(queue.Send{Name: name})
				return err
			})
		})
		p.Until(`[...document.querySelectorAll("td a")].some((a) => a.textContent === "` + name + `")`)
	}
	if got := p.Eval(`document.querySelector("td details").open`); got != "true" {
		t.Error("what was open is closed")
	}
	p.Eval(`document.getElementById("live").click()`)
	p.Go(r.url + "/")
	p.Until(`Number(document.getElementById("main").dataset.loads) > 0`)
}

// TestBrowserConsole: the console offers names, runs what is written at a key, and remembers it.
func TestBrowserConsole(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	t.Parallel()
	b := browsertest.New(t)
	r := newRig(t)
	at := strings.TrimSuffix(r.tables("room", 3), "/tables/") + "/sql"
	p := r.visit(b, at, readSecret)
	const typed = `(text) => { const sql = document.getElementById("sql"); sql.focus(); sql.value = text; sql.setSelectionRange(text.length, text.length); sql.dispatchEvent(new Event("input")); }`
	const press = `(key) => document.getElementById("sql").dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey: true, cancelable: true }))`
	p.Eval(`(` + typed + `)("select count(*) from pla")`)
	if got := p.Eval(`document.getElementById("names").textContent`); got != "plain" {
		t.Errorf("offered: %q", got)
	}
	p.Eval(`(` + press + `)(" ")`)
	p.Eval(`(` + typed + `)(document.getElementById("sql").value + " where a")`)
	p.Eval(`document.querySelector("#names button").click()`)
	const want = `select count(*) from plain where "a b"`
	if got := p.Eval(`document.getElementById("sql").value`); got != want {
		t.Errorf("the text is %s", got)
	}
	p.Eval(`window.before = true; (` + press + `)("Enter")`)
	p.Until(`window.before === undefined && document.readyState === "complete"`)
	if got := p.Eval(`document.querySelector("tbody").textContent.trim() + " " + document.getElementById("history").options[1].value`); got != "0 "+want {
		t.Errorf("the page has %s", got)
	}
	// A thousand rows are a page as any other: no script touches them.
	p.Eval(`(` + typed + `)("with recursive c(x) as (select 1 union all select x + 1 from c) select x, x*x, hex(x), 'some text', x/7.0, null, -x, x'00ff' from c limit 1000")`)
	p.Eval(`window.before = true; (` + press + `)("Enter")`)
	p.Until(`window.before === undefined && document.readyState === "complete"`)
	if got := p.Eval(`document.querySelectorAll("tbody tr").length + " " + document.querySelectorAll("tbody td").length`); got != "1000 8000" {
		t.Errorf("rows and values: %s", got)
	}
	t.Logf("a page of 1000 rows was there after %s ms, of which scripts and layout had %s tasks above 50 ms", p.Eval(`String(Math.round(performance.getEntriesByType("navigation")[0].domComplete))`),
		p.Eval(`new Promise((done) => { const o = new PerformanceObserver((l) => done(String(l.getEntries().length))); o.observe({ type: "longtask", buffered: true }); setTimeout(() => done("0"), 100); })`))
}

// TestBrowserBusy: what is new takes nothing from a visitor: neither what is written nor the place of what is open or has the focus.
func TestBrowserBusy(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a browser")
	}
	t.Parallel()
	b := browsertest.New(t)
	r := newRig(t)
	send := func(name string) {
		r.actor("room", func(a *greenroom.Actor) error {
			return a.Update(t.Context(), func(tx *greenroom.Tx) error {
				_, err := tx.Enqueue(queue.Send{Name: name, Body: name})
				return err
			})
		})
	}
	const fresh = `(() => { document.getElementById("main").dataset.loads = "0"; })()`
	const told, loaded = `document.getElementById("status").textContent.includes("something new")`, `document.getElementById("main").dataset.loads > 0`
	shown := func(name string) string {
		return `[...document.querySelectorAll("td a")].some((a) => a.textContent === "` + name + `")`
	}
	send("first")
	send("second")
	p := r.visit(b, r.path("room")+"/queue", writeSecret)
	p.Until(`document.getElementById("main").dataset.listens === "true" && ` + loaded)
	// What is written, in a field that hasn't the focus.
	p.Eval(`document.getElementById("body").value = "half"`)
	send("third")
	p.Until(told)
	if got := p.Eval(`document.getElementById("body").value + " " + ` + shown("third")); got != "half false" {
		t.Errorf("what was written: %s", got)
	}
	p.Eval(`(() => { const f = document.getElementById("body"); f.value = ""; f.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	p.Until(shown("third"))
	// What is written while the page loads.
	p.Eval(`(() => { const real = fetch; window.fetch = async (at) => { const a = await real(at); window.fetch = real; document.getElementById("body").value = "late"; return a; }; })()`)
	send("fourth")
	p.Until(told)
	if got := p.Eval(`document.getElementById("body").value`); got != "late" {
		t.Errorf("what was written while the page loaded: %q", got)
	}
	p.Eval(`(() => { const f = document.getElementById("body"); f.value = ""; f.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	p.Until(shown("fourth"))
	// What is open and what has the focus, behind a row that goes.
	p.Eval(`(() => { const row = document.querySelectorAll("tbody tr")[1]; row.querySelector("details").open = true; row.querySelector("button").focus(); })()`)
	p.Eval(fresh)
	if status, body := r.do(r.login(writeSecret), r.path("room")+"/do/delete", "id", "1"); status != done {
		t.Fatalf("remove: %d %s", status, body)
	}
	p.Until(loaded + ` && !` + shown("first"))
	if got := p.Eval(`[...document.querySelectorAll("td details")].map((d) => d.open).join() + " " + document.activeElement.ariaLabel`); got != "true,false,false Remove message 2" {
		t.Errorf("what is open, and has the focus: %s", got)
	}
	// What was missed while the page wasn't live.
	p.Eval(`document.getElementById("live").click()`)
	send("fifth")
	p.Eval(`document.getElementById("live").click()`)
	p.Until(shown("fifth"))
}
