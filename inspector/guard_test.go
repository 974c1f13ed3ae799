package inspector_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/inspector"
	"github.com/greenroomdb/greenroom/internal/testkit"
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
	for next, want := range map[string]string{"//evil.test": "/", `/\evil.test`: "/", "https://evil.test": "/", "": "/", "/actors?a=b": "/actors?a=b", "/\t/evil.test": "/", "/\x00/evil.test": "/", "/a\x1b": "/"} {
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
	for host, name := range map[string]string{"localhost": "greenroom", "localhost:99": "greenroom-99", "[::1]:99": "greenroom-99", "127.0.0.1": "greenroom", "greenroom.test:80": "greenroom-80"} {
		if resp, _ := r.send(http.MethodGet, "/actors", nil, http.Header{"Cookie": {name + "=" + c.Value}, "Host": {host}}); resp.StatusCode != http.StatusOK {
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

// TestCookies: pages at two ports of one host, which get each other's cookies, don't end each other's sessions; and a browser that speaks TLS, to a proxy, sends its
// cookie over TLS alone.
func TestCookies(t *testing.T) {
	first, second := newRig(t), newRig(t)
	jar, err := cookiejar.New(nil)
	testkit.Must(t, err)
	for _, r := range []*rig{first, second} {
		u, err := url.Parse(r.url)
		testkit.Must(t, err)
		c := r.login(readSecret)
		if c.Secure {
			t.Error("a cookie for TLS was given without it")
		}
		jar.SetCookies(u, []*http.Cookie{c})
	}
	for _, r := range []*rig{first, second} {
		r.client.Jar = jar
		if resp, _ := r.send(http.MethodGet, "/actors", nil, nil); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", r.url, resp.Status)
		}
	}
	resp, _ := first.send(http.MethodPost, "/login", url.Values{"token": {readSecret}}, http.Header{"Host": {"greenroom.test"}, "Origin": {"https://greenroom.test"}})
	if len(resp.Cookies()) != 1 || !resp.Cookies()[0].Secure || resp.Cookies()[0].Name != "greenroom" {
		t.Errorf("the cookies over TLS are %v", resp.Cookies())
	}
}

// TestLoginBody: what isn't logged in makes the page read no body but that of the form with the token.
func TestLoginBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := "--x\r\nContent-Disposition: form-data; name=\"next\"\r\n\r\n/of-the-body\r\n--x--\r\n"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/login", strings.NewReader(body))
	testkit.Must(t, err)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	resp, err := r.client.Do(req)
	testkit.Must(t, err)
	page, err := io.ReadAll(resp.Body)
	testkit.Must(t, errors.Join(err, resp.Body.Close()))
	if !strings.Contains(string(page), `name="next" value="/"`) {
		t.Errorf("the page is %s", page)
	}
	body = "token=" + readSecret + "&next=/" + strings.Repeat("x", 3<<20)
	if resp, _ := r.send(http.MethodPost, "/login", url.Values{"token": {readSecret}, "next": {body}}, http.Header{"Origin": {r.url}}); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a large form: %s", resp.Status)
	}
}

// TestEmbedded: a page of another origin can't have the browser ask this one for anything that it embeds, and can lead to it.
func TestEmbedded(t *testing.T) {
	r := newRig(t)
	c := r.login(readSecret)
	for _, test := range []struct {
		site, dest string
		want       int
	}{
		{"cross-site", "image", 403}, {"same-site", "script", 403}, {"same-site", "empty", 403}, {"cross-site", "iframe", 403}, {"cross-site", "", 403},
		{"cross-site", "document", 200}, {"same-site", "document", 200}, {"none", "document", 200}, {"same-origin", "empty", 200}, {"", "", 200},
	} {
		headers := http.Header{"Cookie": {c.Name + "=" + c.Value}}
		if test.site != "" {
			headers["Sec-Fetch-Site"], headers["Sec-Fetch-Dest"] = []string{test.site}, []string{test.dest}
		}
		if resp, _ := r.send(http.MethodGet, "/actors", nil, headers); resp.StatusCode != test.want {
			t.Errorf("%q of %q: %s", test.dest, test.site, resp.Status)
		}
	}
}

// TestLogoutEnds: an event stream ends with its session.
func TestLogoutEnds(t *testing.T) {
	r := newRig(t)
	c := r.login(readSecret)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/events", nil)
	testkit.Must(t, err)
	req.Header.Set("Cookie", c.Name+"="+c.Value)
	resp, err := r.client.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	if resp, _ := r.send(http.MethodPost, "/logout", nil, http.Header{"Cookie": req.Header["Cookie"], "Origin": {r.url}}); resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("logout: %s", resp.Status)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("after logout: %v", err)
	}
}

// TestBearers: requests that bear a secret at the same time have one session, and don't end what each other does.
func TestBearers(t *testing.T) {
	r := newRig(t)
	const n = 3
	var dials sync.WaitGroup
	dials.Add(n)
	page := inspector.New(func(ctx context.Context, secret string) (*admin.Client, error) {
		dials.Done()
		dials.Wait() // none has a session before all have a client
		return admin.DialAddress(ctx, strings.TrimPrefix(r.url, "http://"), secret)
	}, nil)
	server := httptest.NewServer(page)
	defer server.Close()
	defer page.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(time.Second))
	defer cancel()
	streams := make(chan *http.Response, n)
	for range n {
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
			if err == nil {
				req.Header = bearer(readSecret)
				var resp *http.Response
				if resp, err = server.Client().Do(req); err == nil {
					streams <- resp
					return
				}
			}
			t.Error(err)
			streams <- nil
		}()
	}
	var open []*http.Response
	for range n {
		if resp := <-streams; resp != nil {
			defer resp.Body.Close()
			open = append(open, resp)
		}
	}
	r.make("room")
	for i, resp := range open {
		lines, told := bufio.NewScanner(resp.Body), false
		for !told && lines.Scan() {
			told = lines.Text() == "event: commit"
		}
		if !told {
			t.Errorf("stream %d ends: %v", i, lines.Err())
		}
	}
}
