//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host/wasm"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestHostWasm has the program serve a module beside the demonstration, in a process of
// its own, which compiles it without the race detector.
func TestHostWasm(t *testing.T) {
	t.Parallel()
	p, _, _ := serveCounter(t, "--demo")
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
	p, file, one := serveCounter(t, "--wasm-keep", "1s")
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
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.stderr.String(), text) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatalf("it doesn't log %q: %s", text, &p.stderr)
		}
	}
}

// counterModule is the module of the example, which is built once.
var counterModule = sync.OnceValues(func() (code []byte, err error) {
	dir, err := os.MkdirTemp("", "wasm")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "counter.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-w -s", "-o", file, "../../examples/counter/wasm")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(file)
})

// serveCounter starts a host with arguments that serves the module of the example, and returns the module and its file. Hosts share what they compile.
func serveCounter(t *testing.T, args ...string) (p *hostProcess, file string, code []byte) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	code, err := counterModule()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file = filepath.Join(dir, "counter.wasm")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--wasm", "module="+file, "--wasm-cache", filepath.Join(testkit.SharedDir(t), "wasm-cache"), filepath.Join(dir, "data"))
	return startHost(t, builtProgram(t), args...), file, code
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
