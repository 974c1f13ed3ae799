package testkit

import (
	"fmt"
	"os"
	"slices"
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

// ends is what is to be done after the last test.
var ends struct {
	mu sync.Mutex
	do []func() error
}

// AtEnd has the package's TestMain, which must be Main, call end after the last test, before what was given earlier and before the folder of
// SharedDir goes. Its error fails the run. It is safe for concurrent use.
func AtEnd(end func() error) {
	ends.mu.Lock()
	defer ends.mu.Unlock()
	ends.do = append(ends.do, end)
}

// Main is the TestMain of a package whose tests use SharedDir or AtEnd: it runs them, does what is to be done at the end, and ends the process.
func Main(m *testing.M) {
	code := m.Run()
	for _, end := range slices.Backward(ends.do) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
