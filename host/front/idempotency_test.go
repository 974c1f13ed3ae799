package front

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// TestIdempotencyKey: a call with the header lands once, and the client is told which answer was stored before.
func TestIdempotencyKey(t *testing.T) {
	r := newRig(t, Options{})
	for i, c := range []struct {
		args     string
		keys     []string
		status   int
		answer   string // or the code of the error
		replayed string
	}{
		{"1", nil, 200, "1", ""},
		{"1", []string{"k"}, 200, "2", ""},
		{"1", []string{"k"}, 200, "2", "true"},
		{" 1 ", []string{"k"}, 200, "2", "true"}, // the same value
		{"2", []string{"k"}, 422, "idempotency_mismatch", ""},
		{"2", []string{`"quoted"`}, 200, "4", ""},
		{"2", []string{"quoted"}, 200, "6", ""},
		{"2", []string{""}, 400, "bad_idempotency_key", ""},
		{"2", []string{"a", "a"}, 400, "bad_idempotency_key", ""},
		{"2", []string{"\u00e9"}, 400, "bad_idempotency_key", ""},
		{"2", []string{strings.Repeat("k", 128)}, 200, "8", ""},
		{"2", []string{strings.Repeat("k", 129)}, 400, "bad_idempotency_key", ""},
		{"0", nil, 200, "8", ""},
	} {
		headers := []string{"Content-Type", "application/json"}
		for _, key := range c.keys {
			headers = append(headers, "Idempotency-Key", key)
		}
		status, answer, h := r.do("POST", "/actors/room/a/actions/add", c.args, headers...)
		if status != 200 {
			answer = problemOf(t, answer)
		}
		if status != c.status || strings.TrimSpace(answer) != c.answer || h.Get("Idempotency-Replayed") != c.replayed {
			t.Errorf("call %d: got %d %s, replayed %q", i, status, answer, h.Get("Idempotency-Replayed"))
		}
	}
	r.reopen()
	if status, answer, h := r.do("POST", "/actors/room/a/actions/add", "1", "Content-Type", "application/json", "Idempotency-Key", "k"); status != 200 || answer != "2" || h.Get("Idempotency-Replayed") != "true" {
		t.Errorf("after a restart: %d %s %v", status, answer, h)
	}
}

// TestIdempotencyKeyOfObject: the same object in JSON is the same arguments.
func TestIdempotencyKeyOfObject(t *testing.T) {
	r := newRig(t, Options{})
	for i, c := range []struct {
		args   string
		status int
	}{
		{`{"b":1,"a":[1.5,"x"],"c":{},"d":null}`, 200}, {`{ "b": 1, "a": [1.5, "x"], "c": {}, "d": null }`, 200}, {`{"b":2,"a":[1.5,"x"],"c":{},"d":null}`, 422},
	} {
		for range 5 {
			status, answer, h := r.do("POST", "/actors/room/a/actions/echo", c.args, "Content-Type", "application/json", "Idempotency-Key", "k")
			if status != c.status {
				t.Fatalf("%s: %d %s", c.args, status, answer)
			}
			if i > 0 && status == 200 && h.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: %v", c.args, h)
			}
		}
	}
}

// TestIdempotencyKeyOfSocket: a request of a socket may have one, too, in both forms; it is the same call as one over HTTP.
func TestIdempotencyKeyOfSocket(t *testing.T) {
	r := newRig(t, Options{})
	key := func(s string) *string { return &s }
	total := 0
	for _, as := range []media{mediaJSON, mediaCBOR} {
		p := r.join(as, wire.Request{})
		k := key("k" + as.String())
		for _, c := range []struct {
			n        int
			key      *string
			code     string
			replayed bool
			added    int
		}{
			{1, nil, "", false, 1},
			{1, k, "", false, 1}, {1, k, "", true, 0}, {2, k, "idempotency_mismatch", false, 0},
			{1, key(""), "bad_idempotency_key", false, 0}, {1, key("\x01"), "bad_idempotency_key", false, 0},
			{0, nil, "", false, 0},
		} {
			p.send(&wire.Request{Type: wire.TypeCall, ID: 7, Action: "add", Args: arg(t, c.n), IdempotencyKey: c.key})
			m, err := p.receive()
			must(t, err)
			total += c.added
			if m.ID != 7 || m.Code != c.code || m.Replayed != c.replayed {
				t.Errorf("%s, %+v: got %+v", as, c, m)
			}
			if want := string(arg(t, total)); c.code == "" && !c.replayed && string(m.Body) != want {
				t.Errorf("%s, %+v: got the total %s, want %d", as, c, text(m.Body), total)
			}
		}
	}
	if status, answer, h := r.do("POST", "/actors/room/a/actions/add", "1", "Content-Type", "application/json", "Idempotency-Key", "k"+mediaJSON.String()); status != 200 || answer != "2" || h.Get("Idempotency-Replayed") != "true" {
		t.Errorf("over HTTP: %d %s %v", status, answer, h)
	}
}

// TestIdempotencyKeyOfCaller: a caller doesn't get another one's answer.
func TestIdempotencyKeyOfCaller(t *testing.T) {
	var closed atomic.Bool
	r := newRig(t, Options{Authorize: doorkeeper(&closed)})
	call := func(who string) (int, string, http.Header) {
		return r.do("POST", "/actors/room/a/actions/add", "1", "Content-Type", "application/json", "Idempotency-Key", "k", "User", who)
	}
	for i, c := range []struct {
		who      string
		status   int
		replayed string
	}{{"ann", 200, ""}, {"ann", 200, "true"}, {"bob", 422, ""}} {
		if status, answer, h := call(c.who); status != c.status || h.Get("Idempotency-Replayed") != c.replayed {
			t.Errorf("call %d: got %d %s", i, status, answer)
		}
	}
}

// TestIdempotencyKeyOfPage: pages of other origins that are let in may send the header, and read what comes back.
func TestIdempotencyKeyOfPage(t *testing.T) {
	r := newRig(t, Options{Origins: []string{"https://shop.example"}})
	_, _, h := r.do("OPTIONS", "/actors/room/a/actions/add", "", "Origin", "https://shop.example", "Access-Control-Request-Method", "POST")
	if got := h.Get("Access-Control-Allow-Headers"); !strings.Contains(got, "Idempotency-Key") {
		t.Errorf("allowed are %q", got)
	}
	_, _, h = r.do("POST", "/actors/room/a/actions/add", "1", "Content-Type", "application/json", "Origin", "https://shop.example")
	if got := h.Get("Access-Control-Expose-Headers"); got != "Idempotency-Replayed, Retry-After" {
		t.Errorf("exposed are %q", got)
	}
	if _, _, h = r.do("POST", "/actors/room/a/actions/add", "1", "Content-Type", "application/json", "Origin", "https://evil.example"); h.Get("Access-Control-Expose-Headers") != "" {
		t.Errorf("a page that isn't let in gets %v", h)
	}
}
