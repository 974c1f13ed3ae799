//go:build unix

package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// A counted is a proxy that counts the connections to what is behind it.
type counted struct {
	net.Listener
	to string // set before the first connection
	n  atomic.Int64
}

// newCounted returns a proxy that forwards nothing yet.
func newCounted(t *testing.T) *counted {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &counted{Listener: ln}
}

// forward serves until the listener is closed.
func (c *counted) forward() {
	for {
		from, err := c.Accept()
		if err != nil {
			return
		}
		c.n.Add(1)
		go func() {
			defer from.Close()
			to, err := net.Dial("tcp", c.to)
			if err != nil {
				return
			}
			defer to.Close()
			go func() {
				_, _ = io.Copy(to, from)
				_ = to.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(from, to)
		}()
	}
}

// asked returns how many connections there were since it was asked before.
func (c *counted) asked() int64 { return c.n.Swap(0) }

// secretFile writes a file of tokens.
func secretFile(t *testing.T, lines string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// startAdvertised starts a host with an API, which others reach through the proxy that is returned.
func startAdvertised(t *testing.T, url, tokens string) (*hostProcess, *counted) {
	t.Helper()
	proxy := newCounted(t)
	p := startHost(t, "", "--demo", "--idle", "1h", "--place", "here", "--admin", "127.0.0.1:0", "--admin-tokens", tokens, "--admin-advertise", proxy.Addr().String(), url)
	m := regexp.MustCompile(`the store at http://([^/]+)/`).FindStringSubmatch(strings.Join(p.said, "\n"))
	if m == nil {
		t.Fatalf("it says %q", p.said)
	}
	proxy.to = m[1]
	go proxy.forward()
	return p, proxy
}

// TestAskHost: on a store in PostgreSQL commands read beside the hosts, and ask the host that has an actor awake, and only that, for what is written to it.
func TestAskHost(t *testing.T) {
	t.Parallel()
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	tokens := secretFile(t, "read graphs 0123456789abcdef\nwrite ops fedcba9876543210\n")
	var hosts [2]*hostProcess
	var proxies [2]*counted
	for i, actor := range []string{"a", "b"} {
		hosts[i], proxies[i] = startAdvertised(t, url, tokens)
		var sum int
		if err := hosts[i].post(t.Context(), "/actors/counter/"+actor+"/actions/add", 5, &sum); err != nil || sum != 5 {
			t.Fatalf("%d, %v", sum, err)
		}
	}
	shown := must(t, "hosts", url)
	for _, p := range proxies {
		if !strings.Contains(shown, "\t"+p.Addr().String()+"\t") {
			t.Errorf("hosts shows %q, without %s", shown, p.Addr())
		}
	}

	const a = "counter/a"
	readBeside(t, url, a)
	if one, two := proxies[0].asked(), proxies[1].asked(); one != 0 || two != 0 {
		t.Errorf("commands that read have asked the hosts %d and %d times", one, two)
	}
	r := program(t.Context(), strings.NewReader(""), "put", url, a, "k", "v")
	for _, want := range []string{"the actor " + a + " is in use by the host", "API is at " + proxies[0].Addr().String(), tokenVariable, "--admin-token-file"} {
		if r.code != serving.ExitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("without a token: %+v, want %q", r, want)
		}
	}
	if one, two := proxies[0].asked(), proxies[1].asked(); one != 0 || two != 0 {
		t.Errorf("without a token the hosts were asked %d and %d times", one, two)
	}
	writeByOwner(t, url, tokens, proxies)

	for _, p := range proxies {
		p.asked()
	}
	for i, actor := range []string{"a", "b"} { // they were awake all the time
		var sum int
		if err := hosts[i].post(t.Context(), "/actors/counter/"+actor+"/actions/add", 1, &sum); err != nil || sum != 6 {
			t.Errorf("counter/%s is at %d, %v", actor, sum, err)
		}
	}
	must(t, "put", url, "notes", "k", "v") // which none of the hosts has
	if one, two := proxies[0].asked(), proxies[1].asked(); one != 0 || two != 0 {
		t.Errorf("for an actor that none of them has the hosts were asked %d and %d times", one, two)
	}
	if got := must(t, "drop", url, "--named", "counter/", "--yes", "--admin-token-file", tokens); got != "2\n" {
		t.Errorf("drop of all: %q", got)
	}
	if one, two := proxies[0].asked(), proxies[1].asked(); one == 0 || two == 0 {
		t.Errorf("for one actor each the hosts were asked %d and %d times", one, two)
	}
	if got := must(t, "ls", url, "--by-name"); !strings.HasPrefix(got, "notes\t") {
		t.Errorf("left are %q", got)
	}
	if got := must(t, "check", url); !strings.HasSuffix(got, "no problems\n") {
		t.Errorf("check: %s", got)
	}
}

// readBeside runs commands that read.
func readBeside(t *testing.T, url, actor string) {
	t.Helper()
	for _, args := range [][]string{
		{"ls", url}, {"ls", url, actor}, {"state", "show", url, actor}, {"queue", "ls", url, actor}, {"label", url, actor}, {"conns", "ls", url, actor},
		{"check", url}, {"fork", url, actor, "copy"}, {"drop", "--yes", url, "copy"},
	} {
		must(t, args...)
	}
}

// writeByOwner has the first host write to counter/a, with a token, and looks at what it stored.
func writeByOwner(t *testing.T, url, tokens string, proxies [2]*counted) {
	t.Helper()
	const a = "counter/a"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"put", url, a, "k", "v"}, ""},
		{[]string{"put", url, a, "l", "w"}, ""},
		{[]string{"rm", url, a, "l"}, ""},
		{[]string{"label", url, a, "customer=42"}, ""},
		{[]string{"queue", "send", url, a, "note", "7"}, "1\n"},
		{[]string{"queue", "send", url, a, "note", "8"}, "2\n"},
		{[]string{"sql", url, a, "create table t(x); insert into t values (1), (2) returning x"}, "1\n2\n"},
	} {
		args := append(c.args, "--admin-token-file", tokens)
		if got := must(t, args...); got != c.want {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
		if one, two := proxies[0].asked(), proxies[1].asked(); one == 0 || two != 0 {
			t.Errorf("%q: the owner was asked %d times, the other host %d", c.args, one, two)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", url, a, "k"}, "v"},
		{[]string{"label", url, a}, "customer\t42\n"},
		{[]string{"sql", "--read-only", url, a, "select sum(x) from t"}, "3\n"},
		{[]string{"queue", "stats", url, a}, "note\t2\t"},
	} {
		if got := must(t, c.args...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
	}
	if one := proxies[0].asked(); one != 0 {
		t.Errorf("to read what it wrote the owner was asked %d times", one)
	}
	// The first token of a file that may write is the one; the environment has one, too.
	var stdout, stderr strings.Builder
	e := &env{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, signals: &serving.Signals{End: func() {}}, getenv: func(name string) string {
		return map[string]string{tokenVariable: "fedcba9876543210"}[name]
	}}
	if code := run(t.Context(), e, []string{"queue", "drain", url, a, "note"}); code != serving.ExitOK || strings.Count(stdout.String(), "\n") != 2 {
		t.Errorf("drain with the token in the environment: status %d, %q, %q", code, &stdout, &stderr)
	}
	for lines, want := range map[string]string{
		"read graphs 0123456789abcdef\n": "may write",
		"write ops 0123456789abcdef\n":   "the token graphs may only read", // it is that of another role there
		"write ops ffffffffffffffff\n":   "bearer token",
	} {
		r := program(t.Context(), strings.NewReader(""), "put", url, a, "k", "x", "--admin-token-file", secretFile(t, lines))
		if r.code != serving.ExitFailed || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "ffffffff") {
			t.Errorf("%q: %+v, want %q", lines, r, want)
		}
	}
}

// TestAskHostRefuses: a token goes to no address where others may read it, and to no host whose lease is over.
func TestAskHostRefuses(t *testing.T) {
	proxy := newCounted(t)
	proxy.to = "127.0.0.1:1"
	go proxy.forward()
	here := proxy.Addr().String()
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	for _, c := range []struct {
		host   actorstore.HostInfo
		vars   map[string]string
		want   string
		dialed bool
	}{
		{actorstore.HostInfo{Name: "pod", Expires: later}, map[string]string{tokenVariable: "fedcba9876543210"}, `host "pod" (`, false},
		{actorstore.HostInfo{Address: "192.0.2.1:1", Expires: later}, map[string]string{tokenVariable: "fedcba9876543210"}, "--admin-insecure", false},
		{actorstore.HostInfo{Address: "shop.lan:1", Expires: later}, map[string]string{tokenVariable: "fedcba9876543210"}, "https://HOST:PORT", false},
		{actorstore.HostInfo{Address: here, Here: true, Expires: before}, map[string]string{tokenVariable: "fedcba9876543210"}, "lease is over", false},
		{actorstore.HostInfo{Address: "shop.invalid:1", Expires: before}, map[string]string{tokenVariable: "fedcba9876543210", insecureVariable: "1"}, "lease is over", false},
		{actorstore.HostInfo{Address: here, Here: true, Expires: later}, nil, tokenVariable, false},
		{actorstore.HostInfo{Address: here, Expires: later}, map[string]string{tokenVariable: "fedcba9876543210"}, "loopback", false},
		{actorstore.HostInfo{Address: "https://" + here, Expires: later}, map[string]string{tokenVariable: "fedcba9876543210"}, "loopback", false},
		{actorstore.HostInfo{Address: here, Here: true, Expires: later}, map[string]string{tokenVariable: "fedcba9876543210"}, "doesn't answer", true},
	} {
		e := &env{getenv: func(name string) string { return c.vars[name] }}
		_, err := asker{e}.dial(t.Context(), inUseBy("lobby", &c.host), &c.host, actorstore.ErrInUse)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "lobby") || strings.Contains(err.Error(), "fedcba") {
			t.Errorf("%+v: got %v, want %q", c.host, err, c.want)
		}
		if !c.dialed && !errors.Is(err, actorstore.ErrInUse) {
			t.Errorf("%+v: got %v, want %v", c.host, err, actorstore.ErrInUse)
		}
		if got := proxy.asked() > 0; got != c.dialed {
			t.Errorf("%+v: it was dialed: %v", c.host, got)
		}
	}
}

// TestAskFlags: the commands that write to an actor which is there, and no others, take a token.
func TestAskFlags(t *testing.T) {
	for cmd := range leaves() {
		name := commandName(cmd)
		group, _, _ := strings.Cut(name, " ")
		writes := !slices.Contains(exclusive, name) && !slices.Contains(reading, name) && !slices.Contains([]string{"backup", "docs", "items", "fork", "copy", "restore"}, group)
		if takes := cmd.Flags().Lookup("admin-token-file") != nil; takes != writes {
			t.Errorf("%s takes a token: %v", name, takes)
		}
	}
}
