package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRun runs the program on a new store.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "school")
	if out, err := exec.Command("go", "build", "-ldflags=-w -s", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := exec.Command(program, filepath.Join(t.TempDir(), "store")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	want, err := os.ReadFile("testdata/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
