//go:build unix

package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestAwakeHosts: on a store in PostgreSQL wake, sleep and conns disconnect ask the host that has the actor, and only that; if none has it they ask one
// that lives, and go on with the next if one doesn't run it, or doesn't answer.
func TestAwakeHosts(t *testing.T) {
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	tokens := secretFile(t, "write ops fedcba9876543210\n")
	refused := func(want string, args ...string) {
		t.Helper()
		if r := program(t.Context(), strings.NewReader(""), append(args, "--admin-token-file", tokens)...); r.code != serving.ExitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %s", args, r, want)
		}
	}
	must(t, "put", url, "notes", "k", "v")
	must(t, "put", url, "counter/new", "k", "v")
	refused("no process that tells the address of its API runs the actors of this store", "wake", url, "notes")
	var hosts [2]*hostProcess
	var proxies [2]*counted
	asked := func(want ...bool) {
		t.Helper()
		for i, p := range proxies {
			if got := p.asked() > 0; got != want[i] {
				t.Errorf("host %d was asked: %v, want %v", i, got, want[i])
			}
		}
	}
	for i, actor := range []string{"a", "b"} {
		hosts[i], proxies[i] = startAdvertised(t, url, tokens)
		var sum int
		if err := hosts[i].post(t.Context(), "/actors/counter/"+actor+"/actions/add", 5, &sum); err != nil || sum != 5 {
			t.Fatalf("%d, %v", sum, err)
		}
	}
	run := func(args ...string) { t.Helper(); must(t, append(args, "--admin-token-file", tokens)...) }
	for range 2 {
		run("wake", url, "counter/b")
		asked(false, true)
	}
	socket, _, err := hosts[0].dial(t.Context(), "counter/a", hostMessage{Type: "connect"})
	if err != nil {
		t.Fatal(err)
	}
	run("conns", "disconnect", "--reason", "out", url, "counter/a", socket.conn)
	asked(true, false)
	if _, _, err := socket.ws.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "out") {
		t.Errorf("the client of the connection: %v", err)
	}
	refused("the actor counter/a: no such connection", "conns", "disconnect", url, "counter/a", socket.conn)
	asked(true, false)
	if r := program(t.Context(), strings.NewReader(""), "sleep", url, "counter/a"); r.code != serving.ExitFailed || !strings.Contains(r.stderr, tokenVariable) {
		t.Errorf("without a token: %+v", r)
	}
	asked(false, false)

	run("sleep", url, "counter/a")
	asked(true, false)
	var sum int
	if err := hosts[1].post(t.Context(), "/actors/counter/a/actions/add", 1, &sum); err != nil || sum != 6 {
		t.Fatalf("the other host calls the one that sleeps: %d, %v", sum, err)
	}
	run("sleep", url, "counter/a")
	asked(false, true)
	refused("the actor notes: no such type", "wake", url, "notes")
	asked(true, true)
	for range 2 { // asleep in both, and then awake in one
		run("wake", url, "counter/new")
		if one, two := proxies[0].asked(), proxies[1].asked(); (one == 0) == (two == 0) {
			t.Errorf("to wake one actor the hosts were asked %d and %d times", one, two)
		}
	}
	if err := proxies[0].Close(); err != nil {
		t.Fatal(err)
	}
	run("wake", url, "counter/a")
	if err := hosts[1].post(t.Context(), "/actors/counter/a/actions/add", 1, &sum); err != nil || sum != 7 {
		t.Errorf("the host that was asked calls it: %d, %v", sum, err)
	}
	refused(proxies[0].Addr().String()+", which doesn't answer", "wake", url, "notes")
}

// TestMoveActor: an actor that is put to sleep, and then woken by the API of a host, is at that host, and calls follow it there.
func TestMoveActor(t *testing.T) {
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	tokens := secretFile(t, "write ops fedcba9876543210\n")
	var hosts [2]*hostProcess
	for i := range hosts {
		hosts[i] = startHost(t, "", "--demo", "--idle", "1h", "--admin", "127.0.0.1:0", "--admin-tokens", tokens, url)
	}
	want := 0
	call := func() {
		t.Helper()
		for _, h := range hosts {
			sum := 0
			want++
			if err := h.post(t.Context(), "/actors/counter/a/actions/add", 1, &sum); err != nil || sum != want {
				t.Fatalf("%d, %v, want %d", sum, err, want)
			}
		}
	}
	// owner returns the address of the API of the host that has the actor, which a command without a token says.
	owner := func() string {
		t.Helper()
		r := program(t.Context(), strings.NewReader(""), "put", url, "counter/a", "k", "v")
		m := regexp.MustCompile(`API is at ([0-9.:]+[0-9])`).FindStringSubmatch(r.stderr)
		if m == nil {
			t.Fatalf("%+v", r)
		}
		return m[1]
	}
	call()
	from := owner()
	for _, h := range hosts {
		to := regexp.MustCompile(`the store at http://([^/]+)/`).FindStringSubmatch(strings.Join(h.said, "\n"))
		if to == nil {
			t.Fatalf("it says %q", h.said)
		}
		if to[1] == from {
			continue
		}
		wake := func() (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+to[1]+"/v1/actors/counter%2Fa/wake", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer fedcba9876543210")
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode, string(body)
		}
		if status, body := wake(); !strings.Contains(body, `"in_use"`) {
			t.Errorf("an actor that is awake elsewhere: %d %s", status, body)
		}
		must(t, "sleep", url, "counter/a", "--admin-token-file", tokens)
		if status, body := wake(); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		call()
		if at := owner(); at != to[1] {
			t.Errorf("the actor is at %s, want %s", at, to[1])
		}
	}
}
