package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
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
		{[]string{"--admin", "127.0.0.1:0"}, serving.ExitUsage, "--admin-tokens"},
		{[]string{"--admin-tokens", good}, serving.ExitUsage, "for --admin"},
		{[]string{"--admin-insecure"}, serving.ExitUsage, "for --admin"},
		{[]string{"--admin-advertise", "shop.lan:1"}, serving.ExitUsage, "for --admin"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", good, "--admin-advertise", ":1"}, serving.ExitUsage, "no host"},
		{[]string{"--admin", "nothing", "--admin-tokens", good}, serving.ExitUsage, "not an address"},
		{[]string{"--admin", "0.0.0.0:0", "--admin-tokens", good}, serving.ExitUsage, "--admin-insecure"},
		{[]string{"--admin", ":0", "--admin-tokens", good}, serving.ExitUsage, "--admin-insecure"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("words", "read secret-0123456789\n", 0o600)}, serving.ExitFailed, "line 1"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("role", "all a secret-0123456789\n", 0o600)}, serving.ExitFailed, "role of token a"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("short", "read a secret\n", 0o600)}, serving.ExitFailed, "16 characters"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", file("empty", "#\n", 0o600)}, serving.ExitFailed, "there is none"},
		{[]string{"--admin", "localhost:0", "--admin-tokens", filepath.Join(dir, "nothing")}, serving.ExitFailed, "no such file"},
	}
	if runtime.GOOS != "windows" {
		tests = append(tests, tests[0])
		tests[0].args, tests[0].code, tests[0].want = []string{"--admin", "localhost:0", "--admin-tokens", file("open", "read a secret-0123456789\n", 0o640)}, serving.ExitFailed, "chmod 600"
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
		p := startServer(t, nil, "", test.command[0], append(test.command[1:], "--admin", "127.0.0.1:0", "--admin-tokens", tokens)...)
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
