package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/wasm"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestRun runs the program several times on one store.
func TestRun(t *testing.T) {
	program, dir := buildProgram(t), t.TempDir()
	for _, tt := range []struct{ args, want string }{
		{"hits 2", "2\n"}, {"hits 40", "42\n"}, {"misses 1", "1\n"}, {"hits 1", "43\n"},
	} {
		if got := runProgram(t, program, dir, tt.args); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
	if out, err := exec.Command(program, dir, "hits", "many").CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "counter: ") {
		t.Errorf("a number that is none: %v, %q", err, out)
	}
}

// buildProgram builds the program.
func buildProgram(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "counter")
	if out, err := exec.Command("go", "build", "-ldflags=-w -s", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// runProgram returns what the program prints.
func runProgram(t *testing.T, program, dir, args string) string {
	t.Helper()
	out, err := exec.Command(program, append([]string{dir}, strings.Fields(args)...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args, err, out)
	}
	return string(out)
}

// build builds the module.
func build(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "counter.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-w -s", "-o", file, "./wasm")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// TestModule has the Go program and the module count in one store, in turn.
func TestModule(t *testing.T) {
	if testkit.Race {
		t.Skip("a module in Go takes minutes to compile with the race detector")
	}
	code, err := os.ReadFile(build(t))
	if err != nil {
		t.Fatal(err)
	}
	m, err := wasm.Compile(t.Context(), "counter", code, &wasm.Options{Interpret: true})
	if err != nil {
		t.Fatal(err)
	}
	program, dir := buildProgram(t), t.TempDir()
	var out strings.Builder
	for _, n := range []string{"2", "41"} {
		out.WriteString(runProgram(t, program, dir, "hits "+n))
		engine, err := pebblekv.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		onHost(t, engine, m.Type(), func(add func(n int) int) { fmt.Fprintln(&out, add(40)) })
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "2\n42\n83\n123\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// onHost runs fn with what adds to the counter "hits", by the action's name: a module has
// no declaration in Go.
func onHost(t *testing.T, engine kv.Engine, kind *host.Type, fn func(add func(n int) int)) {
	t.Helper()
	h, err := host.Open(t.Context(), engine, []*host.Type{kind}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fn(func(n int) (total int) {
		args, err := host.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.Do(t.Context(), &host.Call{Actor: host.Address{Type: "counter", Key: "hits"}, Action: "add", Args: args})
		if err == nil {
			err = r.Decode(&total)
		}
		if err != nil {
			t.Fatal(err)
		}
		return total
	})
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
