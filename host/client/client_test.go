package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/client"
	"github.com/greenroomdb/greenroom/host/front"
)

// TestCalls: results and errors come as they would from a host of the own process, over HTTP and over a socket.
func TestCalls(t *testing.T) {
	for name, doer := range map[string]func(r *rig) client.Doer{
		"http":   func(r *rig) client.Doer { return r.actor },
		"socket": func(r *rig) client.Doer { c, _ := r.connect(client.ConnectOptions{}); return c },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, front.Options{}, nil)
			d := doer(r)
			e, err := client.Invoke(t.Context(), d, add, "tea")
			if want := (entry{1, "tea"}); e != want || err != nil {
				t.Errorf("got %+v, %v, want %+v", e, err, want)
			}
			for range 2 { // a key of the caller's own
				must(t, d.Do(t.Context(), "add", "key", &e, &client.CallOptions{IdempotencyKey: "k"}))
			}
			if want := (entry{2, "key"}); e != want {
				t.Errorf("with a key: %+v", e)
			}
			if err := d.Do(t.Context(), "add", "lock", &e, &client.CallOptions{IdempotencyKey: "k"}); !errors.Is(err, host.ErrIdempotencyMismatch) {
				t.Errorf("another call with the key: %v", err)
			}
			var raw host.Raw
			must(t, d.Do(t.Context(), "entries", 0, &raw, &client.CallOptions{Idempotent: true}))
			var list []entry
			must(t, raw.Decode(&list))
			if len(list) != 2 {
				t.Errorf("got %+v", list)
			}
			if err := client.Command(t.Context(), d, refuse, struct{}{}); host.Code(err) != "no_ink" || err.Error() != "There is no ink." {
				t.Errorf("got %v", err)
			}
			if err := d.Do(t.Context(), "nothing", nil, nil, nil); !errors.Is(err, host.ErrNoAction) {
				t.Errorf("got %v", err)
			}
			if err := d.Do(t.Context(), "flood", "many", nil, &client.CallOptions{Once: true}); !errors.Is(err, host.ErrArgs) {
				t.Errorf("got %v", err)
			}
			if err := d.Do(t.Context(), "add", func() {}, nil, nil); !errors.Is(err, host.ErrArgs) {
				t.Errorf("got %v", err)
			}
			if err := d.Do(t.Context(), "add", "tea", new(int), nil); err == nil || errors.Is(err, host.ErrUnknownOutcome) {
				t.Errorf("a result that doesn't fit: %v", err)
			}
			if err := d.Do(t.Context(), "add", "x", nil, &client.CallOptions{Once: true, IdempotencyKey: "k"}); err == nil {
				t.Error("a call has a key and is sent once")
			}
		})
	}
}

// TestURL: what is not the address of a host is refused at once.
func TestURL(t *testing.T) {
	for _, bad := range []string{"", "localhost:1", "ftp://x", "http://", "http://x?y", "http://x#y", ":"} {
		if _, err := client.New(bad, nil); err == nil {
			t.Errorf("%q is fine", bad)
		}
	}
}

// cut has the front do a call, and its answer be lost.
func cut(w http.ResponseWriter, r *http.Request, front http.Handler) {
	front.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func busy(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`{"code":"busy","message":"Later."}`))
}

func pass(w http.ResponseWriter, r *http.Request, front http.Handler) { front.ServeHTTP(w, r) }

// TestRetries: a call whose answers are lost, or that is refused for now, is sent again and runs once; and what a caller gets that mustn't do so.
func TestRetries(t *testing.T) {
	for name, tt := range map[string]struct {
		ways    []func(http.ResponseWriter, *http.Request, http.Handler)
		opts    *client.CallOptions
		retries int
		code    string // of the error
		calls   int64
		entries int
	}{
		"lost twice":         {[]func(http.ResponseWriter, *http.Request, http.Handler){cut, cut, pass}, nil, 0, "", 3, 1},
		"busy":               {[]func(http.ResponseWriter, *http.Request, http.Handler){busy, pass}, nil, 0, "", 2, 1},
		"busy, once":         {[]func(http.ResponseWriter, *http.Request, http.Handler){busy, pass}, &client.CallOptions{Once: true}, 0, "", 2, 1},
		"lost, once":         {[]func(http.ResponseWriter, *http.Request, http.Handler){cut, pass}, &client.CallOptions{Once: true}, 0, "unknown_outcome", 1, 1},
		"lost, idempotent":   {[]func(http.ResponseWriter, *http.Request, http.Handler){cut, pass}, &client.CallOptions{Idempotent: true}, 0, "", 2, 2},
		"lost, then refused": {[]func(http.ResponseWriter, *http.Request, http.Handler){cut, busy, busy}, nil, 2, "unknown_outcome", 3, 1},
		"always busy":        {[]func(http.ResponseWriter, *http.Request, http.Handler){busy, busy}, nil, 1, "busy", 2, 0},
		"no retries":         {[]func(http.ResponseWriter, *http.Request, http.Handler){cut, pass}, nil, -1, "unknown_outcome", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, front.Options{}, &client.Options{Retries: tt.retries})
			r.between = func(w http.ResponseWriter, q *http.Request, front http.Handler) {
				tt.ways[r.calls.Load()-1](w, q, front)
			}
			if err := r.actor.Do(t.Context(), "add", "tea", nil, tt.opts); host.Code(err) != tt.code || errors.Is(err, host.ErrUnknownOutcome) != (tt.code == "unknown_outcome") {
				t.Errorf("got %v", err)
			}
			if got := r.calls.Load(); got != tt.calls {
				t.Errorf("%d requests", got)
			}
			list, err := entries.Call(t.Context(), r.host, "a/b", 0)
			if must(t, err); len(list) != tt.entries {
				t.Errorf("there are %v", list)
			}
		})
	}
}

// TestRetryAfter: a call isn't sent again before the host allows it.
func TestRetryAfter(t *testing.T) {
	r := newRig(t, front.Options{}, nil)
	r.between = func(w http.ResponseWriter, q *http.Request, front http.Handler) {
		if r.calls.Load() > 1 {
			t.Error("it is sent again")
		}
		w.Header().Set("Retry-After", "3600")
		busy(w, q, front)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("enough"))
	defer cancel()
	if err := r.actor.Do(ctx, "add", "tea", nil, nil); err == nil || err.Error() != "enough" {
		t.Errorf("got %v", err)
	}
}

// TestTokens: a client has the token of now, of each request and socket, and is refused without one.
func TestTokens(t *testing.T) {
	const token = "0123456789abcdef"
	now := "another token, too"
	r := newRig(t, front.Options{Tokens: []string{token}}, &client.Options{Token: func(context.Context) (string, error) { return now, nil }})
	if err := r.actor.Do(t.Context(), "add", "tea", nil, nil); host.Code(err) != "unauthorized" {
		t.Errorf("got %v", err)
	}
	if _, err := r.actor.Connect(t.Context(), nil); host.Code(err) != "unauthorized" {
		t.Errorf("got %v", err)
	}
	now = token
	must(t, r.actor.Do(t.Context(), "add", "tea", nil, nil))
	c, err := r.actor.Connect(t.Context(), nil)
	must(t, err)
	c.Close()
	fixed, err := client.Token(token)(t.Context())
	if must(t, err); fixed != token {
		t.Errorf("got %q", fixed)
	}
}

// TestStrangeAnswers: an answer of something in between is an error, after which the call may have landed, unless it is one of a host with more in its header.
func TestStrangeAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   error // nil for none, or for another one than ErrUnknownOutcome
		code   string
	}{
		"a parameter": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/cbor; charset=binary")
			_, _ = w.Write([]byte{7})
		}},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, host.ErrUnknownOutcome, "unknown_outcome"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, nil, "bad_response"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		mux.HandleFunc("/", tt.answer)
		server := httptest.NewServer(mux)
		c, err := client.New(server.URL, &client.Options{Retries: -1})
		must(t, err)
		var n int
		err = c.Actor(host.Address{Type: "a", Key: "b"}).Do(t.Context(), "c", 1, &n, nil)
		switch {
		case tt.code == "":
			if err != nil || n != 7 {
				t.Errorf("%s: got %d, %v", name, n, err)
			}
		case err == nil || host.Code(err) != tt.code || errors.Is(err, host.ErrUnknownOutcome) != (tt.want != nil):
			t.Errorf("%s: got %v (%s)", name, err, host.Code(err))
		}
		server.Close()
	}
}
