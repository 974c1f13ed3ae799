package admin_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
)

const (
	readSecret  = "0123456789abcdef"
	writeSecret = "fedcba9876543210"
)

// serveTCP serves the store of r on loopback, too, and returns its address. A query may take as long as deadline says.
func (r *rig) serveTCP(deadline time.Duration) string {
	r.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	s, err := admin.Serve(r.Context(), ln, r.store, &admin.Options{
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)), QueryDeadline: deadline,
		Tokens: []admin.Token{{Name: "graphs", Role: admin.RoleRead, Secret: readSecret}, {Name: "ops", Role: admin.RoleWrite, Secret: writeSecret}},
	})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func bearer(secret string) http.Header { return http.Header{"Authorization": {"Bearer " + secret}} }

// everything is what the store holds, in the bytes of its engine.
func (r *rig) everything() string {
	r.Helper()
	var b strings.Builder
	for a, err := range r.store.Actors(r.Context(), nil) {
		if err != nil {
			r.Fatal(err)
		}
		_, text := r.ask(http.MethodGet, "/v1/actors/id:"+a.ID.String()+"/keys?limit=1000", "")
		b.WriteString(a.ID.String() + text)
	}
	return b.String()
}

// TestReadToken: a token that may read gets an answer to everything that is tagged read, and can't do anything else.
func TestReadToken(t *testing.T) {
	r := newRig(t, admin.Options{})
	r.furnish()
	at := r.serveTCP(0)
	c := &http.Client{}
	defer c.CloseIdleConnections()
	var doc struct {
		Paths map[string]map[string]struct{ Tags []string }
	}
	status, text := send(t, c, http.MethodGet, at+"/v1/openapi.json", "", bearer(readSecret))
	if err := json.Unmarshal([]byte(text), &doc); err != nil || status != http.StatusOK {
		t.Fatalf("the document: %d, %v", status, err)
	}
	type request struct{ method, path string }
	requests := map[request]bool{{"GET", "/v1/engine"}: false, {"GET", "/v1/actors/{actor}/sql"}: false}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			requests[request{strings.ToUpper(method), path}] = op.Tags[0] == "read"
		}
	}
	before := r.everything()
	writes := 0
	for req, reads := range requests {
		header := bearer(readSecret)
		if req.path == "/v1/engine" {
			header["Connection"], header["Upgrade"] = []string{"Upgrade"}, []string{"greenroom-engine/1"}
		}
		body := `{}`
		if strings.HasSuffix(req.path, "/query") {
			body = `{"sql":"select 1"}`
		}
		query := ""
		if req.path == "/v1/events" {
			query = "?actor=" // an answer, and no stream
		}
		status, text := send(t, c, req.method, at+strings.ReplaceAll(req.path, "{actor}", "room")+query, body, header)
		if reads != (status != http.StatusForbidden) || reads && status >= 500 {
			t.Errorf("%s %s: %d %s", req.method, req.path, status, text)
		}
		if !reads {
			writes++
		}
	}
	if writes != 24 { // 20 verbs, the index, the database, and two connections
		t.Errorf("%d requests are refused", writes)
	}
	if r.everything() != before {
		t.Error("something has changed")
	}
	if status, text := send(t, c, http.MethodPost, at+"/v1/actors/room/keys/put", `{"key":"n","value":"dg=="}`, bearer(writeSecret)); status != http.StatusOK {
		t.Errorf("a token that may write: %d %s", status, text)
	}
	if r.everything() == before {
		t.Error("nothing has changed")
	}
	for _, want := range []string{"verb=keys/put actor=room by=ops", "by=graphs", "may only read"} {
		if !r.log.has(want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if r.log.has(readSecret) || r.log.has(writeSecret) {
		t.Error("a secret is in the log")
	}
}

// TestStrangers: a request without a token is refused, and one of a page of another origin.
func TestStrangers(t *testing.T) {
	r := newRig(t, admin.Options{})
	at := r.serveTCP(0)
	c := &http.Client{}
	defer c.CloseIdleConnections()
	for _, test := range []struct {
		name   string
		header http.Header
		path   string
		status int
	}{
		{"no token", nil, "/v1/process", 401},
		{"no token, nothing there", nil, "/v1/nix", 401},
		{"another token", bearer("0123456789abcdeg"), "/v1/process", 401},
		{"a longer token", bearer(readSecret + "0"), "/v1/process", 401},
		{"an empty token", bearer(""), "/v1/process", 401},
		{"another scheme", http.Header{"Authorization": {"Basic " + readSecret}}, "/v1/process", 401},
		{"in the query", nil, "/v1/process?token=" + readSecret, 401},
		{"a token", bearer(readSecret), "/v1/process", 200},
		{"a token, nothing there", bearer(readSecret), "/v1/nix", 404},
		{"another origin", http.Header{"Authorization": {"Bearer " + writeSecret}, "Origin": {"http://example.com"}}, "/v1/process", 403},
		{"another port", http.Header{"Authorization": {"Bearer " + writeSecret}, "Origin": {"http://127.0.0.1:1"}}, "/v1/process", 403},
		{"no origin at all", http.Header{"Authorization": {"Bearer " + writeSecret}, "Origin": {"null"}}, "/v1/process", 403},
		{"two origins", http.Header{"Authorization": {"Bearer " + writeSecret}, "Origin": {at, "http://example.com"}}, "/v1/process", 403},
		{"its own origin", http.Header{"Authorization": {"Bearer " + writeSecret}, "Origin": {at}}, "/v1/process", 200},
	} {
		if status, text := send(t, c, http.MethodGet, at+test.path, "", test.header); status != test.status {
			t.Errorf("%s: %d %s", test.name, status, text)
		}
	}
	// The socket needs no token, and no page has business there.
	if status, _ := r.ask(http.MethodGet, "/v1/process", ""); status != http.StatusOK {
		t.Errorf("the socket: %d", status)
	}
}

// TestPage: a page is asked without a token for all but the API, and a process says what a client may do.
func TestPage(t *testing.T) {
	r := newRig(t, admin.Options{Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.Path) })})
	for path, want := range map[string]string{"/": "page /", "/v2/actors": "page /v2/actors", "/v1/nothing": `{"code":"not_found","message":"there is nothing at GET /v1/nothing"}`} {
		if _, text := r.ask(http.MethodGet, path, ""); strings.TrimSpace(text) != want {
			t.Errorf("%s: %s", path, text)
		}
	}
	at := r.serveTCP(0)
	c := &http.Client{}
	defer c.CloseIdleConnections()
	if status, _ := send(t, c, http.MethodGet, at+"/", "", nil); status != http.StatusUnauthorized {
		t.Errorf("without a page: %d", status)
	}
	for secret, want := range map[string]string{readSecret: `"role":"read"`, writeSecret: `"role":"write"`} {
		if _, text := send(t, c, http.MethodGet, at+"/v1/process", "", bearer(secret)); !strings.Contains(text, want) || !strings.Contains(text, `"host":false`) {
			t.Errorf("the process says %s, not %s", text, want)
		}
	}
}

// TestBadTokens: Serve says what is wrong with a token, and not its secret.
func TestBadTokens(t *testing.T) {
	ok := admin.Token{Name: "a", Role: admin.RoleRead, Secret: readSecret}
	for _, tokens := range [][]admin.Token{
		nil, {{Role: admin.RoleRead, Secret: readSecret}}, {{Name: "a b", Role: admin.RoleRead, Secret: readSecret}}, {{Name: "a", Role: "all", Secret: readSecret}},
		{{Name: "a", Role: admin.RoleRead, Secret: readSecret[1:]}}, {{Name: "a", Role: admin.RoleRead, Secret: readSecret + "ü"}},
		{ok, {Name: "a", Role: admin.RoleWrite, Secret: writeSecret}}, {ok, {Name: "b", Role: admin.RoleWrite, Secret: readSecret}},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Serve(t.Context(), ln, nil, &admin.Options{Tokens: tokens}); !errors.Is(err, admin.ErrTokens) || strings.Contains(err.Error(), readSecret[1:]) {
			t.Errorf("%v: %v", tokens, err)
		}
		if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener is open: %v", err)
		}
	}
}

// TestHostileValues: a value with what would command a terminal is JSON, and a query without end ends.
func TestHostileValues(t *testing.T) {
	r := newRig(t, admin.Options{})
	at := r.serveTCP(time.Second)
	c := &http.Client{}
	defer c.CloseIdleConnections()
	hostile := strings.Repeat("\x1b]0;\a\u009b\x00\u202e\"\\\xff<", 70000) // a MiB
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			_, err := tx.Exec("update t set a = cast(? as text)", []byte(hostile))
			return errors.Join(err, tx.Label("\x1b[2J", "\u202e"), tx.Put([]byte("\x1b\xff"), nil))
		})
	})
	for _, path := range []string{"/v1/actors", "/v1/actors/room/keys", "/v1/actors/room/schema"} {
		if status, text := send(t, c, http.MethodGet, at+path, "", bearer(readSecret)); status != http.StatusOK || !json.Valid([]byte(text)) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %d %q", path, status, text)
		}
	}
	status, text := send(t, c, http.MethodPost, at+"/v1/actors/room/query", `{"sql":"select a from t"}`, bearer(readSecret))
	var out struct{ Rows [][]string }
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK || strings.ContainsAny(text, "\x1b\x00") {
		t.Fatalf("the value: %d %.100q, %v", status, text, err)
	}
	if got, want := out.Rows[0][0], strings.ToValidUTF8(hostile, "\ufffd"); got != want {
		t.Errorf("the value has %d bytes, not %d", len(got), len(want))
	}
	status, text = send(t, c, http.MethodPost, at+"/v1/actors/room/query",
		`{"sql":"with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c"}`, bearer(readSecret))
	if status != http.StatusGatewayTimeout || !strings.Contains(text, `"timeout"`) {
		t.Errorf("a query without end: %d %s", status, text)
	}
}
