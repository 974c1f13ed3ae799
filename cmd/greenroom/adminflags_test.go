package main

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestAdminFlags: the API isn't served where others would get at it.
func TestAdminFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", "# tokens\nread graphs secret-0123456789\n", 0o600)
	tests := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--admin", "127.0.0.1:0"}, exitUsage, "--admin-tokens"},
		{[]string{"--admin-tokens", good}, exitUsage, "for --admin"},
		{[]string{"--admin-insecure"}, exitUsage, "for --admin"},
		{[]string{"--admin-advertise", "shop.lan:1"}, exitUsage, "for --admin"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", good, "--admin-advertise", ":1"}, exitUsage, "no host"},
		{[]string{"--admin", "nothing", "--admin-tokens", good}, exitUsage, "not an address"},
		{[]string{"--admin", "0.0.0.0:0", "--admin-tokens", good}, exitUsage, "--admin-insecure"},
		{[]string{"--admin", ":0", "--admin-tokens", good}, exitUsage, "--admin-insecure"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("words", "read secret-0123456789\n", 0o600)}, exitFailed, "line 1"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("role", "all a secret-0123456789\n", 0o600)}, exitFailed, "role of token a"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("short", "read a secret\n", 0o600)}, exitFailed, "16 characters"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("empty", "#\n", 0o600)}, exitFailed, "there is none"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", filepath.Join(dir, "nothing")}, exitFailed, "no such file"},
	}
	if runtime.GOOS != "windows" {
		tests = append(tests, tests[0])
		tests[0].args, tests[0].code, tests[0].want = []string{"--admin", "localhost:0", "--admin-tokens", file("open", "read a secret-0123456789\n", 0o640)}, exitFailed, "chmod 600"
	}
	for _, c := range tests {
		for _, command := range []string{"host", "engine"} {
			args := append([]string{command, filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}, c.args...)
			if command == "host" {
				args = append(args, "--demo")
			}
			r := program(t.Context(), strings.NewReader(""), args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "secret-") {
				t.Errorf("%q: status %d, %s", args, r.code, r.stderr)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("a store was made: %v", err)
	}
}

// TestAdminConns: the API has a number of connections at most; one more ends the one that has been idle for longest. That one is the first, which asks
// for nothing: when a server has a connection for idle again, its client may already have the answer.
func TestAdminConns(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("read graphs 0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := &adminFlags{address: "127.0.0.1:0", tokenFile: tokens}
	server, err := flags.server(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	store, err := storeurl.Open(t.Context(), "mem:", greenroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end, err := server.listen(t.Context(), store, "mem:")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(end(), store.Close()); err != nil {
			t.Error(err)
		}
	}()
	_, at, _ := strings.Cut(server.at, "http://")
	at, _, _ = strings.Cut(at, "/")
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", at)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(testkit.Patience(20 * time.Second)))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c, bufio.NewReader(c)
	}
	ask := func(c net.Conn, in *bufio.Reader) {
		t.Helper()
		if _, err := io.WriteString(c, "GET /v1/process HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	_, in := dial()
	var last net.Conn
	var lastIn *bufio.Reader
	for range maxAdminConns {
		last, lastIn = dial()
		ask(last, lastIn)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("the first connection, which was idle for longest: %v, want %v", err, io.EOF)
	}
	ask(last, lastIn)
}

// TestAdminServes: host and engine serve the API to clients with a token, host with its counts.
func TestAdminServes(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("read graphs 0123456789abcdef\nwrite ops fedcba9876543210\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		command []string
		metrics int
	}{{[]string{"host", "--demo", "mem:"}, 200}, {[]string{"engine", filepath.Join(t.TempDir(), "data")}, 404}} {
		p := startServer(t, "", test.command[0], append(test.command[1:], "--admin", "127.0.0.1:0", "--admin-tokens", tokens)...)
		m := regexp.MustCompile(`look into the store at (http://\S+)/, with a token`).FindStringSubmatch(strings.Join(p.said, "\n"))
		if m == nil {
			t.Fatalf("%q says %q", test.command, p.said)
		}
		for _, c := range []struct {
			method, path, token string
			status              int
		}{
			{"GET", "/v1/actors", "", 401}, {"GET", "/v1/actors", "0123456789abcdef", 200}, {"GET", "/v1/metrics", "0123456789abcdef", test.metrics},
			{"GET", "/actors", "0123456789abcdef", 200}, {"POST", "/v1/actors/a/keys/put?create=true", "0123456789abcdef", 403}, {"POST", "/v1/actors/a/keys/put", "fedcba9876543210", 404},
		} {
			req, err := http.NewRequestWithContext(soonContext(t), c.method, m[1]+c.path, strings.NewReader(`{"key":"k"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+c.token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != c.status {
				t.Errorf("%q: %s %s: %d %.200s, %v", test.command, c.method, c.path, resp.StatusCode, text, err)
			}
		}
	}
}
