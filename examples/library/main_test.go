package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRun runs the program on a new store.
func TestRun(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	args, stdout := os.Args, os.Stdout
	os.Args, os.Stdout = []string{"library", filepath.Join(t.TempDir(), "store")}, out
	defer func() { os.Args, os.Stdout = args, stdout }()
	main()
	got, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
