package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/wasm"
	"github.com/greenroomdb/greenroom/kv/memkv"
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
		if err := run(t.Context(), &out, strings.Fields(args)); host.Code(err) != "usage" {
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
	file, dir := build(t), t.TempDir()
	var out strings.Builder
	for _, args := range []string{"hits 2", "-wasm hits 40", "hits"} {
		var all []string
		rest, isModule := strings.CutPrefix(args, "-wasm ")
		if isModule {
			all = []string{"-wasm", file}
		}
		if err := run(t.Context(), &out, append(append(all, dir), strings.Fields(rest)...)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "2\n42\n43\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := run(t.Context(), &out, []string{"-wasm", "main.go", dir, "a"}); !errors.Is(err, wasm.ErrModule) {
		t.Errorf("got %v", err)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := wasm.Compile(t.Context(), "counter", code, &wasm.Options{Interpret: true})
	if err != nil {
		t.Fatal(err)
	}
	testReset(t, m.Type())
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReset waits until a counter is reset.
func TestReset(t *testing.T) { testReset(t, counter()) }

func testReset(t *testing.T, kind *host.Type) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, err := host.Open(t.Context(), memkv.New(), []*host.Type{kind}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 1}, {40 * time.Second, 2}, {40 * time.Second, 3}, {2 * time.Minute, 1}} {
			time.Sleep(step.wait)
			got, err := host.Invoke[int](t.Context(), h, host.Address{Type: "counter", Key: "a"}, "add", 1)
			if err != nil {
				t.Fatal(err)
			}
			if got != step.want {
				t.Errorf("after %v: got %d, want %d", step.wait, got, step.want)
			}
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
