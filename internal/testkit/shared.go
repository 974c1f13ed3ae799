package testkit

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the folder of SharedDir, "" as long as no test has asked for it.
var shared struct {
	once sync.Once
	dir  string
	err  error
}

// SharedDir returns a folder that all tests of the process share, for what is built once. Every user of the
// machine may read it. The package's TestMain must be Main, which removes it. It is safe for concurrent use.
func SharedDir(t testing.TB) string {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "greenroom-test"); shared.err == nil {
			shared.err = os.Chmod(shared.dir, 0o755)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.dir
}

// Main is the TestMain of a package whose tests use SharedDir: it runs them, removes the folder, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
