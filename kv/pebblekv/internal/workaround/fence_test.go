package workaround

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A partly is a file whose SyncTo only begins to write, or is a whole fsync.
type partly struct {
	vfs.File
	full bool
}

func (p partly) SyncTo(int64) (bool, error) { return p.full, nil }

// TestFsyncsPartly: a call that only begins to write isn't an fsync.
func TestFsyncsPartly(t *testing.T) {
	const name = "store/000001.sst"
	n, fault := 0, NewFault()
	f := NewFence(vfs.NewMem(), "store", 0, fault, NewGate(fault, nil, 1, 0), func(of string) {
		if n++; of != name {
			t.Errorf("an fsync of %s", of)
		}
	})
	for want, full := range []bool{false, true} {
		file, err := f.opened("create", name, partly{full: full}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := file.SyncTo(1); got != full || err != nil {
			t.Errorf("full is %v, %v, want %v", got, err, full)
		}
		if n != want {
			t.Errorf("%d fsyncs are counted, want %d", n, want)
		}
	}
}
