package archive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestRestoreToMount tests that a folder which can't be replaced is refused before the tables are read, and left as it is.
func TestRestoreToMount(t *testing.T) {
	m := newModel(t, 71, folder(t))
	m.commit(10)
	m.start()
	m.sync()
	mark, _, err := m.archive().Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("greenroom-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	var read atomic.Bool
	a, err := Open(t.Context(), &watched{Bucket: m.bucket, before: func(name string) {
		if strings.HasPrefix(name, tablePrefix) {
			read.Store(true)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Restore(t.Context(), mark, dir, nil); !errors.Is(err, syscall.EBUSY) || read.Load() {
		t.Errorf("read %t; %v", read.Load(), err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
