//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/host/wasm"
)

// TestHostWasm has the program serve a module beside the demonstration, in a process of
// its own, which compiles it without the race detector.
func TestHostWasm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "counter.wasm")
	buildCounter(t, file)
	p := startHost(t, builtProgram(t), "--demo", "--wasm", "module="+file, "--wasm-cache", filepath.Join(dir, "cache"), filepath.Join(dir, "data"))
	for n, want := range []int{0, 1, 3} {
		var got int
		if err := p.post(soonContext(t), "/actors/module/lobby/actions/add", n, &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	p.kill()
}

// TestHostWasmReload: a changed module is loaded at SIGHUP: actors that are awake keep theirs for a while, others get the new one, and failures are counted by version. A file that
// isn't a module leaves what is there.
func TestHostWasmReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "counter.wasm")
	one := buildCounter(t, file)
	p := startHost(t, builtProgram(t), "--wasm", "module="+file, "--wasm-cache", filepath.Join(dir, "cache"), "--wasm-keep", "1s", filepath.Join(dir, "data"))
	ctx := soonContext(t)
	add := func(key string, n, want int) {
		t.Helper()
		var got int
		if err := p.post(ctx, "/actors/module/"+key+"/actions/add", n, &got); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", key, got, err, want)
		}
	}
	failed := func(key string, by []byte, n int) bool {
		t.Helper()
		if err := p.post(ctx, "/actors/module/"+key+"/actions/add", "text", nil); err == nil {
			t.Error("a text is added")
		}
		return strings.Contains(fetch(t, p.url+"/metrics"), `greenroom_host_turns_failed_total{action="add",turn="action",type="module",version="`+wasm.VersionOf(by)+`"} `+strconv.Itoa(n)+"\n")
	}
	load := func(code []byte, says string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file+".new", code, 0o600), os.Rename(file+".new", file), p.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
			t.Fatal(err)
		}
		p.awaitLog(ctx, says)
	}
	add("lobby", 2, 2)
	if !failed("lobby", one, 1) {
		t.Error("the failure isn't counted")
	}
	load([]byte("text"), "can't be loaded")
	add("lobby", 1, 3)
	two := append(slices.Clone(one), 0, 3, 1, 'v', '2') // with a section of its own, which changes nothing else
	load(two, "a module is loaded")
	if !failed("new", two, 1) {
		t.Error("a new actor isn't of the new module")
	}
	p.awaitLog(ctx, "no actor has the module of before")
	add("lobby", 1, 4)
	if !failed("lobby", two, 2) {
		t.Error("the actor that was awake keeps its module")
	}
	p.kill()
}

// awaitLog waits until the log of a process says something.
func (p *hostProcess) awaitLog(ctx context.Context, text string) {
	p.t.Helper()
	for !strings.Contains(p.stderr.String(), text) {
		if ctx.Err() != nil {
			p.t.Fatalf("it doesn't log %q: %s", text, &p.stderr)
		}
		runtime.Gosched()
	}
}

// buildCounter builds the module of the example, and returns it.
func buildCounter(t *testing.T, file string) []byte {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", file, "../../examples/counter/wasm")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestWasmFlag refuses files that aren't modules.
func TestWasmFlag(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		"name": "NAME=FILE", "=file": "NAME=FILE", "name=": "NAME=FILE",
		"name=" + text: "can't be served: " + wasm.ErrModule.Error(), "name=" + text + "x": "no such file",
	} {
		kinds, closer, err := (&wasmTypes{files: []string{arg}}).types(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || kinds != nil {
			t.Errorf("%q: got %v", arg, err)
		}
		if err := closer.Close(); err != nil {
			t.Errorf("%q: %v", arg, err)
		}
	}
}
