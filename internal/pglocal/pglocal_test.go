//go:build unix

package pglocal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A temporary server leaves nothing when it ends, be it stopped or killed.
func TestTemporary(t *testing.T) {
	if _, err := Search(); errors.Is(err, ErrMissing) {
		if os.Getenv("GREENROOM_REQUIRE_POSTGRES") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	parent := t.TempDir()
	// The user that runs the server must get to its folder.
	for dir := parent; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, end := range map[string]func(*Node) error{"Stop": (*Node).Stop, "Kill": (*Node).Kill} {
		n, err := Temporary(parent, "fsync=off")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := n.SQL("SHOW fsync"); got != "off" || err != nil {
			t.Errorf("fsync is %q, %v", got, err)
		}
		if err := end(n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := n.Stop(); err != nil {
			t.Errorf("Stop after %s: %v", name, err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("after %s: %v, %v", name, left, err)
		}
	}
}
