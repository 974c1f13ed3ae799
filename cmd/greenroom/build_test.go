package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var buildOnce sync.Once
var errBuild error

// builtProgram returns the path of the program, which is built once, with its symbols, and with nothing for a debugger:
// most of the time of a linker goes there.
func builtProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(testkit.SharedDir(t), "greenroom")
	buildOnce.Do(func() {
		if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, ".").CombinedOutput(); err != nil {
			errBuild = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if errBuild != nil {
		t.Fatal(errBuild)
	}
	return program
}
