package main

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
)

// aloneEnv tells a test that its process runs no other.
const aloneEnv = "GREENROOM_TEST_ALONE"

// inOwnProcess runs a test of memory in a process of its own, where nothing lets go of memory
// meanwhile that another test has left.
func inOwnProcess(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(aloneEnv) != "" {
		test(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), aloneEnv+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// TestPeak: the peak holds what was resident since the reset, and nothing from before.
func TestPeak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc/self/status")
	}
	inOwnProcess(t, testPeak)
}

func testPeak(t *testing.T) {
	if got, of := ownMemory.peak(), memoryOf(os.Getpid()).peak(); got == 0 || of == 0 {
		t.Fatalf("peaks of %d and %d bytes", got, of)
	}
	if err := os.WriteFile(string(ownMemory)+"/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("this process may not forget its peak: ", err)
	}
	debug.FreeOSMemory() // what is made below is not memory that is resident already
	ownMemory.reset()
	before := ownMemory.peak()
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	if got := ownMemory.peak(); got < before+32<<20 {
		t.Errorf("the peak went from %d to %d bytes by a block of %d", before, got, len(block))
	}
	runtime.KeepAlive(block)
	if got := memoryOf(-1).peak(); got != 0 {
		t.Errorf("a process that isn't there had %d bytes", got)
	}
	memoryOf(-1).reset() // says nothing, either
}
