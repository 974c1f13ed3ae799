package inspector_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// views are the pages of an actor, with what they show of one that furnish has made.
var views = map[string][]string{
	"":             {"Newest commit", "label=value", `<span class="state failed">failed</span>`},
	"/tables":      {`<bdi>t</bdi>`, "CREATE TABLE"},
	"/tables/t":    {"cell", `<td class="null">`, "X&#39;00FF&#39;", `<td class="real"><bdi>2.5</bdi>`, `aria-sort="ascending"`},
	"/sql":         {"A statement that reads", `"t"`},
	"/keys":        {"user/", "sql"},
	"/queue":       {`<bdi>name</bdi>`, "ready", "body"},
	"/workflow":    {"step", "output", "failure", "input", `<svg class="bar"`},
	"/traces":      {"span", `<span class="state failed">1</span>`},
	"/connections": {"connection", "/path", "event"},
	"/state":       {"state", "item", "action", "argument", "array of 5"},
}

// TestViews: each page shows what is stored.
func TestViews(t *testing.T) {
	r := newRig(t)
	r.furnish("room", content{steps: 1})
	if body := r.get("/"); !strings.Contains(body, "Workflows that have failed") || !strings.Contains(body, "<bdi>room</bdi>") {
		t.Errorf("the overview is %s", body)
	}
	for query, want := range map[string]bool{"": true, "?prefix=ro": true, "?prefix=x": false, "?label=label%3Dvalue": true, "?state=failed&order=since": true, "?stuck=true": false} {
		if body := r.get("/actors" + query); strings.Contains(body, "<bdi>room</bdi>") != want || strings.Contains(body, "are like that") == want {
			t.Errorf("actors%s: %s", query, body)
		}
	}
	at := r.path("room")
	for view, wants := range views {
		body := r.get(at + view)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s hasn't %s:\n%s", view, want, body)
			}
		}
	}
	trace := strings.TrimPrefix(r.trace(at), at)
	if body := r.get(at + trace); !strings.Contains(body, "attribute") || !strings.Contains(body, `/workflow?entry=step#entry-step"`) || !strings.Contains(body, "status") {
		t.Errorf("the trace is %s", body)
	}
	for query, want := range map[string]bool{"attribute=workflow.step.id%3Dstep": true, "attribute=workflow.step.id%3Dx": false, "name=span&status=error": true, "name=x": false} {
		if body := r.get(at + "/traces?" + query); strings.Contains(body, "<bdi>span</bdi>") != want {
			t.Errorf("traces?%s: %s", query, body)
		}
	}
	if body := r.get(at + "/workflow"); !strings.Contains(body, `/traces?attribute=workflow.step.id%3D`) {
		t.Errorf("no entry leads to its traces: %s", body)
	}
	if body := r.get(at + keyLink.FindString(r.get(at+"/keys?prefix=user%2F"))); !strings.Contains(body, "<bdi>value</bdi>") || !strings.Contains(body, "76 61 6c 75 65") {
		t.Errorf("the key is %s", body)
	}
	if resp, body := r.send(http.MethodGet, "/actors/room/state", nil, bearer(readSecret)); resp.StatusCode != http.StatusOK || !strings.Contains(body, "item") {
		t.Errorf("by its name: %s", resp.Status)
	}
	for path, want := range map[string]int{
		"/nothing": 404, "/actors/missing": 404, at + "/tables/nothing": 404, at + "/tables/t?sort=nothing": 404, at + "/tables/t?after=x": 400, at + "/traces/x": 400, at + "/keys/x": 400, at + "/keys/00": 404,
		at + "/tables/t/cell?rowid=9&column=c": 404, at + "/tables/t/cell?rowid=1&column=x": 404, "/actors?state=odd": 400, at + "/traces/" + strings.Repeat("1", 32): 404,
	} {
		if resp, body := r.send(http.MethodGet, path, nil, bearer(readSecret)); resp.StatusCode != want || !strings.Contains(body, `role="alert"`) {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}

// TestEmpty: an actor that has nothing, and a store without actors, say what to do.
func TestEmpty(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/actors"} {
		if body := r.get(path); !strings.Contains(body, `class="card"`) {
			t.Errorf("%s is %s", path, body)
		}
	}
	r.make("room")
	at := r.path("room")
	for view := range views {
		if view == "" || view == "/sql" || view == "/keys" || view == "/tables/t" || view == "/traces" {
			continue
		}
		if body := r.get(at + view); !strings.Contains(body, `class="card"`) {
			t.Errorf("%s is %s", view, body)
		}
	}
	for _, view := range []string{"/sql", "/keys", "/traces", "/tables/t/cell?rowid=1&column=c"} {
		if resp, body := r.send(http.MethodGet, at+view, nil, bearer(readSecret)); resp.StatusCode >= 500 || !strings.Contains(body, "</html>") {
			t.Errorf("%s: %s %s", view, resp.Status, body)
		}
	}
}

// forms are the values that forms hold, which are what they are.
var forms = regexp.MustCompile(`(?s) value="[^"<>]*"|<textarea[^>]*>[^<]*</textarea>|<script type="application/json" id="words">[^<]*</script>`)

// TestHostile: whatever names and values are, a page says what they are, as text, and no more than a part of one that is large.
func TestHostile(t *testing.T) {
	r := newRig(t)
	const text = "\"><script>alert(1)</script>\u202e\x00'/../%2e\x1b[2J<img src=x onerror=alert(2)>{{.}}"
	r.furnish("room"+strings.ReplaceAll(text, "\x00", ""), content{text: text, long: strings.Repeat("<b>\u202e\x00", 1<<17), steps: 1})
	at := r.path("room" + strings.ReplaceAll(text, "\x00", ""))
	paths := []string{"/", "/actors"}
	table := "t" + strings.ReplaceAll(text, "\x00", "")
	for view := range views {
		if view == "/tables/t" {
			view = "/tables/" + url.PathEscape(table)
		}
		paths = append(paths, at+view)
	}
	paths = append(paths, at+keyLink.FindString(r.get(at+"/keys?prefix=user%2F")), r.trace(at), at+"/tables/"+url.PathEscape(table)+"?sort=n&column=n&test=contains&value="+url.QueryEscape(text),
		at+"/tables/"+url.PathEscape(table)+"/cell?rowid=2&column="+url.QueryEscape("c"+strings.ReplaceAll(text, "\x00", "")), at+"/keys?prefix="+url.QueryEscape(text),
		at+"/queue?name="+url.QueryEscape(text), "/actors?prefix="+url.QueryEscape(text), at+"/sql?sql="+url.QueryEscape(text), "/login?next="+url.QueryEscape("/"+text))
	for _, path := range paths {
		resp, body := r.send(http.MethodGet, path, nil, bearer(readSecret))
		if resp.StatusCode != http.StatusOK || len(body) > 400<<10 {
			t.Errorf("%s: %s, %d bytes %.1000s", path, resp.Status, len(body), body)
		}
		body = forms.ReplaceAllString(body, "")
		for _, bad := range []string{"<script>alert", "<img src=x", "<b>\u202e", "\u202e", "\x00", "\x1b"} {
			if i := strings.Index(body, bad); i >= 0 {
				t.Errorf("%s has %q: %q", path, bad, body[max(0, i-200):min(len(body), i+50)])
			}
		}
	}
	for _, path := range []string{"/x" + url.PathEscape(text), "/actors/" + url.PathEscape(text), at + "/tables/" + url.PathEscape(text)} {
		if resp, body := r.send(http.MethodGet, path, nil, bearer(readSecret)); resp.StatusCode != http.StatusNotFound || strings.Contains(body, "<script>alert") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
}
