// Package testkit is what the tests of all packages share: which form of a suite a run
// asks for, whether the race detector watches, and how long a test waits before it
// gives up.
//
// A suite that takes long has up to three forms, which docs/testing.md lists:
//
//   - the quick one, which go test ./... runs for each change;
//   - the long one, which GREENROOM_LONG=1 asks for, and .ci/run long runs;
//   - the short one, which -short asks for: under the race detector, and on another engine than
//     the one that a package is tested with by default.
//
// It is for tests alone, and imports nothing of the tree but internal/memdir.
package testkit

import (
	"os"
	"testing"
	"time"
)

// LongVariable is the environment variable that asks for long forms, with any value but the
// empty one.
const LongVariable = "GREENROOM_LONG"

// Short reports whether this run asks for short forms: -short is given, or the race
// detector watches.
func Short() bool { return Race || testing.Short() }

// Long reports whether this run asks for long forms. It is false where Short is true.
func Long() bool { return os.Getenv(LongVariable) != "" && !Short() }

// Pick returns the size of the form that this run asks for.
func Pick[T any](short, quick, long T) T {
	switch {
	case Short():
		return short
	case Long():
		return long
	}
	return quick
}

// OnlyLong skips a test that has no other form than the long one. Why says what takes so
// long.
func OnlyLong(t testing.TB, why string) {
	t.Helper()
	if !Long() {
		t.Skipf("%s: set %s=1", why, LongVariable)
	}
}

// Patience returns after how long a test gives up that waits for what takes d at most on
// an idle machine. It is long, because only a test that fails waits so long, and a
// machine may be busy with something else.
func Patience(d time.Duration) time.Duration {
	if Race {
		d *= 4
	}
	return max(10*d, time.Minute)
}
