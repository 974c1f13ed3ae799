package main

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestServe: serve shows a store by a link with a token, which may write only if it is asked to.
func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := greenroom.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Actor(t.Context(), "room", nil)
	if err == nil {
		err = errors.Join(a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }), a.Close())
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags  []string
		status int  // of what writes
		beside bool // a host that has the store open
	}{{nil, http.StatusForbidden, false}, {[]string{"--write"}, http.StatusOK, false}, {nil, http.StatusForbidden, true}} {
		end := func() {}
		if test.beside {
			end = hosted(t, dir)
			if r := program(t.Context(), nil, "serve", "--write", "--listen", "127.0.0.1:0", dir); r.code != serving.ExitFailed {
				t.Errorf("to write beside a host: %+v", r)
			}
		}
		p := startServer(t, nil, "", "serve", append(test.flags, dir)...)
		m := regexp.MustCompile(`(http://\S+)/login#token=(\S+)`).FindStringSubmatch(strings.Join(p.said, "\n"))
		if m == nil {
			t.Fatalf("serve says %q", p.said)
		}
		for _, c := range []struct {
			method, path string
			status       int
			want         string
		}{{"GET", "/actors", 200, "<bdi>room</bdi>"}, {"POST", "/v1/actors/room/keys/put", test.status, ""}} {
			req, err := http.NewRequestWithContext(soonContext(t), c.method, m[1]+c.path, strings.NewReader(`{"key":"k"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+m[2])
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != c.status || !strings.Contains(string(text), c.want) {
				t.Errorf("%q: %s %s: %d %.200s, %v", test.flags, c.method, c.path, resp.StatusCode, text, err)
			}
		}
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		end()
	}
	for code, args := range map[int][]string{serving.ExitUsage: {"--listen", "0.0.0.0:0", dir}, serving.ExitFailed: {"--listen", "127.0.0.1:0", dir + "x"}} {
		if r := program(t.Context(), nil, append([]string{"serve"}, args...)...); r.code != code {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
