package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the program as the tests of this process share it.
var built struct {
	once sync.Once
	dir  string // "" as long as no test has asked for it
	err  error
}

// TestMain removes the program in the end.
func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// builtProgram returns the path of the program, in a folder that others may read too.
func builtProgram(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { built.err = buildProgram() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "greenroom")
}

// buildProgram builds the program with its symbols, and with nothing for a debugger: most of
// the time of a linker goes there.
func buildProgram() (err error) {
	if built.dir, err = os.MkdirTemp("", "greenroom-test"); err != nil {
		return err
	}
	if err := os.Chmod(built.dir, 0o755); err != nil {
		return err
	}
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(built.dir, "greenroom"), ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
