package testkit

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/internal/memdir"
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

// Main is the TestMain of a package whose tests use SharedDir or AtEnd, or many files: it runs them, does what is to be done at the end, and
// ends the process. Temporary files are in memory where that has room, unless the run asks for long forms or measures: to make and to remove
// them on a disk took a fifth to a third of the processor time of some packages. A killed process leaves the same files either way.
func Main(m *testing.M) {
	flag.Parse()
	own, err := filesInMemory()
	code := 1
	if err == nil {
		code = m.Run()
	}
	for _, end := range slices.Backward(ends.do) {
		err = errors.Join(err, end())
	}
	for _, dir := range []string{shared.dir, own} {
		if dir != "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// filesInMemory makes a folder in memory that temporary files are in from now on, and returns it: "" if they stay where they are.
func filesInMemory() (own string, err error) {
	dir := memdir.Find()
	if dir == "" || Long() || flag.Lookup("test.bench").Value.String() != "" || strings.HasPrefix(os.TempDir(), dir) {
		return "", nil
	}
	own, err = os.MkdirTemp(dir, "greenroom-test")
	if err != nil {
		return "", err
	}
	return own, errors.Join(os.Chmod(own, 0o755), os.Setenv("TMPDIR", own))
}
