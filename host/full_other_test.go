//go:build !linux

package host

import "testing"

// mountSmall skips the test: only Linux has a tmpfs.
func mountSmall(t *testing.T, _ string) {
	t.Helper()
	t.Skip("a file system of its own is mounted on Linux")
}
