//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host/wasm"
)

// TestHostWasm has the program serve a module beside the demonstration, in a process of
// its own, which compiles it without the race detector.
func TestHostWasm(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "counter.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", file, "../../examples/counter/wasm")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
