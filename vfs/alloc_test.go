package vfs_test

import (
	"context"
	"fmt"
	"testing"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// A sink is an engine that, when told to, accepts commits and forgets them: what
// is left is what the layers above it allocate.
type sink struct {
	kv.Engine
	forget bool
}

func (s *sink) Commit(ctx context.Context, c *kv.Commit) error {
	if !s.forget {
		return s.Engine.Commit(ctx, c)
	}
	if c.OnApply != nil {
		c.OnApply()
	}
	return nil
}

// newFile returns a database of n pages, opened by one connection.
func newFile(t *testing.T, engine kv.Engine, n int) *vfs.Handle {
	t.Helper()
	r := newRigOn(t, engine, batch.Limits{AtomicBatches: envlimits.Unlimited})
	v := vfs.New(nil)
	if err := v.Mount(t.Context(), "file", r.Actor); err != nil {
		t.Fatal(err)
	}
	f, _, err := vfs.Files{VFS: v}.Open("file", sqlitevfs.OPEN_MAIN_DB|sqlitevfs.OPEN_CREATE|sqlitevfs.OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	h := f.(*vfs.Handle)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	write(t, h, n)
	return h
}

// write commits n pages atomically.
func write(t testing.TB, h *vfs.Handle, n int) {
	t.Helper()
	page := make([]byte, chunked.Size)
	copy(page, format.Magic)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.Lock(sqlitevfs.LOCK_SHARED))
	must(h.Lock(sqlitevfs.LOCK_RESERVED))
	must(h.Lock(sqlitevfs.LOCK_EXCLUSIVE))
	must(h.BeginAtomicWrite())
	for i := range n {
		_, err := h.WriteAt(page, int64(i)*chunked.Size)
		must(err)
	}
	must(h.CommitAtomicWrite())
	must(h.CommitPhaseTwo())
	must(h.Unlock(sqlitevfs.LOCK_NONE))
}

func TestNoAllocationPerPageRead(t *testing.T) {
	const pages = 400
	for name, open := range map[string]func(t *testing.T) kv.Engine{
		"memkv": func(*testing.T) kv.Engine { return memkv.New() },
		"pebblekv": func(t *testing.T) kv.Engine {
			// Small, so that the pages are in tables and not in memory.
			e, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{MemtableBytes: 256 << 10})
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
	} {
		for _, level := range []sqlitevfs.LockLevel{sqlitevfs.LOCK_SHARED, sqlitevfs.LOCK_RESERVED} {
			t.Run(fmt.Sprintf("%s/lock %d", name, level), func(t *testing.T) {
				h := newFile(t, open(t), pages)
				page := make([]byte, chunked.Size)
				for l := sqlitevfs.LOCK_SHARED; l <= level; l++ {
					if err := h.Lock(l); err != nil {
						t.Fatal(err)
					}
				}
				read := func() {
					for i := range int64(pages) {
						if _, err := h.ReadAt(page, i*chunked.Size); err != nil {
							t.Fatal(err)
						}
					}
				}
				read() // makes the snapshot
				if n := testkit.FewestAllocs(read); n > pages/20 && !testkit.Race {
					t.Errorf("reading %d pages allocates %v times", pages, n)
				}
			})
		}
	}
}

func TestNoAllocationPerPageWritten(t *testing.T) {
	engine := &sink{Engine: memkv.New()}
	h := newFile(t, engine, 10*chunked.MaxKept)
	engine.forget = true
	few := testkit.FewestAllocs(func() { write(t, h, 10) })
	for _, pages := range []int{110, 5 * chunked.MaxKept} { // of these most are in buffers that the file doesn't keep
		many := testkit.FewestAllocs(func() { write(t, h, pages) })
		if perPage := (many - few) / float64(pages-10); perPage > 0.05 && !testkit.Race {
			t.Errorf("a commit of 10 pages allocates %v times, one of %d pages %v times", few, pages, many)
		}
	}
}
