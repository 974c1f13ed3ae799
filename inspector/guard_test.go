package inspector_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// login returns a cookie of a session with a secret.
func (r *rig) login(secret string) *http.Cookie {
	r.Helper()
	resp, body := r.send(http.MethodPost, "/login", url.Values{"token": {secret}, "next": {"/actors"}}, http.Header{"Origin": {r.url}})
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/actors" || len(resp.Cookies()) != 1 {
		r.Fatalf("login: %s %s", resp.Status, body)
	}
	return resp.Cookies()[0]
}

// TestLogin: a visitor without a token sees nothing, and one with a token sees the page that it asked for, until it logs out.
func TestLogin(t *testing.T) {
	r := newRig(t)
	r.make("room")
	for _, path := range []string{"/", "/actors?state=failed", r.path("room") + "/state", "/events", "/nothing"} {
		resp, body := r.send(http.MethodGet, path, nil, nil)
		want := "/login?next=" + url.QueryEscape(path)
		if path == "/" {
			want = "/login"
		}
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != want || strings.Contains(body, "<bdi>room") {
			t.Errorf("%s: %s, to %s", path, resp.Status, resp.Header.Get("Location"))
		}
	}
	for _, secret := range []string{"", "0123456789abcdeg", readSecret + "x"} {
		resp, body := r.send(http.MethodPost, "/login", url.Values{"token": {secret}}, http.Header{"Origin": {r.url}})
		if resp.StatusCode != http.StatusUnauthorized || len(resp.Cookies()) > 0 || !strings.Contains(body, "No token of this store is like that.") {
			t.Errorf("login with %q: %s %s", secret, resp.Status, body)
		}
	}
	c := r.login(readSecret)
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || len(c.Value) < 20 || strings.Contains(c.Value, readSecret) {
		t.Errorf("the cookie is %+v", c)
	}
	with := http.Header{"Cookie": {c.Name + "=" + c.Value}}
	if resp, body := r.send(http.MethodGet, "/actors", nil, with); resp.StatusCode != http.StatusOK || !strings.Contains(body, "<bdi>room</bdi>") {
		t.Errorf("with the cookie: %s", resp.Status)
	}
	with.Set("Origin", r.url)
	if resp, _ := r.send(http.MethodPost, "/logout", nil, with); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("logout: %s", resp.Status)
	}
	if resp, _ := r.send(http.MethodGet, "/actors", nil, with); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("after logout: %s", resp.Status)
	}
	for next, want := range map[string]string{"//evil.test": "/", `/\evil.test`: "/", "https://evil.test": "/", "": "/", "/actors?a=b": "/actors?a=b", "/\t/evil.test": "/"} {
		resp, _ := r.send(http.MethodPost, "/login", url.Values{"token": {readSecret}, "next": {next}}, http.Header{"Origin": {r.url}})
		if got := resp.Header.Get("Location"); got != want {
			t.Errorf("after login to %q: %q", next, got)
		}
	}
}

// TestStrangers: pages of other sites, and names of other sites that resolve to this machine, reach nothing, whatever the browser sends along.
func TestStrangers(t *testing.T) {
	r := newRig(t)
	r.furnish("room", content{steps: 1})
	c := r.login(writeSecret)
	sql := url.Values{"sql": {"select 1"}, "form": {"table"}}
	at := r.path("room")
	for name, headers := range map[string]http.Header{
		"another origin":  {"Origin": {"http://evil.test"}},
		"an opaque one":   {"Origin": {"null"}},
		"no origin":       {},
		"another port":    {"Origin": {"http://127.0.0.1:1"}},
		"a rebound name":  {"Origin": {"http://evil.test"}, "Host": {"evil.test"}},
		"a name and port": {"Origin": {"http://evil.test:80"}, "Host": {"evil.test:80"}},
	} {
		headers.Set("Cookie", c.Name+"="+c.Value)
		for path, form := range map[string]url.Values{at + "/sql": sql, "/logout": {}, "/login": {"token": {readSecret}}} {
			if resp, body := r.send(http.MethodPost, path, form, headers); resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) > 0 {
				t.Errorf("POST %s from %s: %s %s", path, name, resp.Status, body)
			}
		}
		if name == "no origin" {
			continue
		}
		for _, path := range []string{"/", at, "/static/page.js", "/login", "/events"} {
			if resp, body := r.send(http.MethodGet, path, nil, headers); resp.StatusCode != http.StatusForbidden || strings.Contains(body, "<bdi>room") {
				t.Errorf("GET %s from %s: %s", path, name, resp.Status)
			}
		}
	}
	// No verb by GET, and none that isn't there.
	own := http.Header{"Cookie": {c.Name + "=" + c.Value}, "Origin": {r.url}}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		if resp, _ := r.send(method, at+"/state", nil, own); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
	for _, host := range []string{"localhost", "localhost:99", "[::1]:99", "127.0.0.1", "greenroom.test:80"} {
		if resp, _ := r.send(http.MethodGet, "/actors", nil, http.Header{"Cookie": own["Cookie"], "Host": {host}}); resp.StatusCode != http.StatusOK {
			t.Errorf("at %s: %s", host, resp.Status)
		}
	}
	resp, _ := r.send(http.MethodGet, "/", nil, own)
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin",
	} {
		if got := resp.Header.Get(name); !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
			t.Errorf("%s is %q", name, got)
		}
	}
}
