package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/wasm"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestRun runs the program several times on one store.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	for _, args := range []string{"hits 2", "hits 40", "misses", "hits"} {
		if err := run(t.Context(), &out, append([]string{dir}, strings.Fields(args)...)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "2\n42\n1\n43\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, args := range []string{"", "a", "a b c", "a b 1 2"} {
		if err := run(t.Context(), &out, strings.Fields(args)); err == nil || !strings.HasPrefix(err.Error(), "usage: ") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// build builds the module.
func build(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "counter.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", file, "./wasm")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// TestModule has the Go program and the module count in one store, in turn, and the
// module's alarm reset the counter.
func TestModule(t *testing.T) {
	if raced {
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
	dir := t.TempDir()
	var out strings.Builder
	for _, n := range []string{"2", "41"} {
		if err := run(t.Context(), &out, []string{dir, "hits", n}); err != nil {
			t.Fatal(err)
		}
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
	testReset(t, m.Type())
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReset waits until a counter is reset.
func TestReset(t *testing.T) { testReset(t, counter) }

func testReset(t *testing.T, kind *host.Type) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		onHost(t, memkv.New(), kind, func(add func(n int) int) {
			for _, step := range []struct {
				wait time.Duration
				want int
			}{{0, 1}, {40 * time.Second, 2}, {40 * time.Second, 3}, {2 * time.Minute, 1}} {
				time.Sleep(step.wait)
				if got := add(1); got != step.want {
					t.Errorf("after %v: got %d, want %d", step.wait, got, step.want)
				}
			}
		})
	})
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
