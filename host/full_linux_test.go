package host

import (
	"syscall"
	"testing"
)

// mountSmall mounts a file system of 96 MiB in memory, for which it takes root.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("a file system of its own takes root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, 0)) })
}
