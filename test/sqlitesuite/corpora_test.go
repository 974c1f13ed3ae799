package sqlitesuite

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The module modernc.org/sqlite carries the tests and the fuzz corpora of SQLite's
// developers, which are in the public domain. It is fetched like any module, into
// the module cache, when a test wants them. go.mod doesn't require it: its code is
// not used, and would bring a dozen modules along. The sum holds it to the bytes
// that this package was written for.
const (
	corporaModule = "modernc.org/sqlite@v1.61.1"
	corporaSum    = "h1:TBEE49wz7VlxS+qXRXMQiPUZYOXHJ4ku83daYv1fe04="
)

// corpora returns the folder of SQLite's own tests. A test that can't have it, for
// want of a module proxy, is skipped.
func corpora(t *testing.T) string {
	t.Helper()
	dir, err := corporaDir()
	if err != nil {
		t.Skipf("%s can't be had: %v", corporaModule, err)
	}
	return dir
}

var corporaDir = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", corporaModule)
	cmd.Dir = os.TempDir() // not in this module, whose go.sum must not change
	out, err := cmd.Output()
	var m struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &m); jsonErr != nil {
		return "", errors.Join(err, jsonErr)
	}
	switch {
	case m.Error != "":
		return "", errors.New(m.Error)
	case err != nil:
		return "", err
	case m.Sum != corporaSum:
		panic("sqlitesuite: " + corporaModule + " has the sum " + m.Sum)
	}
	return filepath.Join(m.Dir, "testdata", "tcl"), nil
})

// everything is the environment variable that makes the suites run all of what
// they have instead of the part that CI has time for.
const everything = "SQLITESUITE_ALL"

// all says whether it is set. It may also narrow a suite down: a number n other
// than 1 takes every n-th script.
func stride(t *testing.T, usual int) int {
	t.Helper()
	v := os.Getenv(everything)
	if v == "" {
		return usual
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want 1, or n for every n-th", everything, strings.TrimSpace(v))
	}
	return n
}
