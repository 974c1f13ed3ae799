package front

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestMethods: a request with another method is answered with the list of methods, everywhere.
func TestMethods(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Method)) })
	r := newRig(t, Options{MetricsPage: page, Pages: page})
	const call, connect = "/actors/room/a/actions/conns", "/actors/room/a/connect"
	for _, c := range []struct{ path, allow string }{
		{call, "POST, OPTIONS"}, {connect, "GET, OPTIONS"},
		{"/healthz", "GET, HEAD, OPTIONS"}, {"/readyz", "GET, HEAD, OPTIONS"}, {"/metrics", "GET, HEAD, OPTIONS"},
		{"/", "GET, HEAD, OPTIONS"}, {"/chat.js", "GET, HEAD, OPTIONS"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "BREW"} {
			status, answer, h := r.do(method, c.path, "")
			allowed := strings.Contains(c.allow+",", method+",")
			switch {
			case method == "OPTIONS":
				if status != 204 || h.Get("Allow") != c.allow {
					t.Errorf("%s %s: %d, Allow %q", method, c.path, status, h.Get("Allow"))
				}
			case allowed:
				want := 200
				if c.path == connect {
					want = 426
				}
				if status != want || method == "HEAD" && answer != "" {
					t.Errorf("%s %s: %d %s", method, c.path, status, answer)
				}
			case status != 405 || h.Get("Allow") != c.allow || h.Get("Content-Type") != "application/json":
				t.Errorf("%s %s: %d, Allow %q: %s", method, c.path, status, h.Get("Allow"), answer)
			case method != "HEAD" && (problemOf(t, answer) != "method_not_allowed" || !strings.Contains(answer, c.allow)):
				t.Errorf("%s %s: %s", method, c.path, answer)
			}
		}
	}
	// A proxy is asked with CONNECT, for an address in place of a path.
	for _, target := range []string{"localhost:443", "/", call} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.server.URL, "http://"))
		must(t, err)
		s := &stage{T: t}
		if a := <-s.ask(c, "CONNECT "+target+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); a.status != 405 || a.code != "method_not_allowed" {
			t.Errorf("CONNECT %s: %+v", target, a)
		}
		must(t, c.Close())
	}
}

// TestNoRoute: what is not there below /actors is a problem in JSON, with pages too.
func TestNoRoute(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "page", http.StatusTeapot) })
	r := newRig(t, Options{Pages: page})
	r.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"/actors", "/actors/", "/actors/room", "/actors/room/a", "/actors/room/a/actions", "/actors/room/a/actions/", "/actors/room/a/events", "/actors/room/a/actions/x/y"} {
		for _, method := range []string{"GET", "POST"} {
			status, answer, h := r.do(method, path, "")
			if status != 404 || problemOf(t, answer) != "not_found" || h.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %d %s", method, path, status, answer)
			}
		}
	}
	if status, _, _ := r.do("GET", "/actor", ""); status != http.StatusTeapot {
		t.Errorf("a page: %d", status)
	}
	status, answer, h := r.do("GET", "/actors/room/a/connect", "")
	if status != 426 || problemOf(t, answer) != "upgrade_required" || h.Get("Upgrade") != "websocket" {
		t.Errorf("no socket: %d %s %v", status, answer, h)
	}
}

// TestContentEncoding: a body is refused that is coded in a way that isn't undone, and its
// client is told what is taken.
func TestContentEncoding(t *testing.T) {
	r := newRig(t, Options{})
	for _, c := range []struct {
		headers []string
		status  int
		field   string
		value   string
	}{
		{[]string{"Content-Encoding", "gzip"}, 415, "Accept-Encoding", "identity"},
		{[]string{"Content-Encoding", "identity, br"}, 415, "Accept-Encoding", "identity"},
		{[]string{"Content-Encoding", "identity", "Content-Encoding", "x"}, 415, "Accept-Encoding", "identity"},
		{[]string{"Content-Encoding", "Identity"}, 200, "Accept-Encoding", ""},
		{[]string{"Content-Encoding", ""}, 200, "Accept-Encoding", ""},
		{[]string{"Content-Type", "text/plain"}, 415, "Accept", "application/json, application/cbor"},
	} {
		headers := c.headers
		if headers[0] != "Content-Type" {
			headers = append(headers, "Content-Type", "application/json")
		}
		status, answer, h := r.do("POST", "/actors/room/a/actions/echo", "7", headers...)
		if status != c.status || h.Get(c.field) != c.value || status == 415 && problemOf(t, answer) != "unsupported_media_type" {
			t.Errorf("%q: %d %s %v", c.headers, status, answer, h)
		}
	}
}
