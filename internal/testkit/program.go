package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// Program runs main, of the package that the test is in, with the path of a store that isn't there yet, and fails unless
// main prints what testdata/output.txt has. It changes os.Args and os.Stdout meanwhile, so that no other test may run beside it.
func Program(t *testing.T, main func()) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	args, stdout := os.Args, os.Stdout
	os.Args, os.Stdout = []string{args[0], filepath.Join(t.TempDir(), "store")}, out
	defer func() { os.Args, os.Stdout = args, stdout }()
	main()
	got, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "output.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
