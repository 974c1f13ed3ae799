package sqlitesuite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A site is one of many small databases. What can be compared lies on stock or
// plain, and on a house.
type site struct {
	dsn string
	// sectors says that the VFS names another sector size than Greenroom's, from
	// which SQLite takes another page size for an empty database.
	sectors bool
	// counts are what the VFS counted so far; nil if it doesn't count.
	counts func() vfs.Stats
	// drop removes the database, which no connection has open any more.
	drop func()
}

// connMemory bounds the memory of one SQLite, in bytes.
const connMemory = 128 << 20

// open opens a connection and tries the given PRAGMAs: a file that isn't a
// database answers each with an error.
func (s *site) open(t *testing.T, pragmas ...string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.OpenContext(sqlite3.WithMaxMemory(context.WithoutCancel(t.Context()), connMemory), s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	if s.sectors && slices.Equal(play(c, "PRAGMA page_count"), transcript{"0"}) {
		play(c, "PRAGMA page_size=4096")
	}
	for _, p := range pragmas {
		play(c, "PRAGMA "+p)
	}
	return c
}

// stock is go-sqlite3's memdb: SQLite as it is, over memory.
type stock struct{}

// create makes a database that holds image, or nothing.
func (stock) create(_ *testing.T, image []byte) *site {
	// memdb has one namespace in a process.
	name := fmt.Sprintf("greenroom-stock-%d.db", names.Add(1))
	memdb.Create(name, slices.Clone(image))
	return &site{
		dsn:     "file:/" + name + "?vfs=memdb",
		sectors: true,
		drop:    func() { memdb.Delete(name) },
	}
}

// files is go-sqlite3's own VFS, over a folder: what has a write-ahead log is
// compared with it.
type files string

// create makes a database that holds image.
func (dir files) create(t *testing.T, image []byte) *site {
	t.Helper()
	path := filepath.Join(string(dir), "1.db")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	return &site{dsn: "file:" + path, drop: func() {
		for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	}}
}

// A house is Greenroom's VFS over a store in memory, with an actor for each
// database.
type house struct {
	store *actorstore.Store
	vfs   *vfs.VFS
	name  string
	n     int
	// haunted says that a connection will never be closed.
	haunted bool
}

func newHouse(t *testing.T, m mode) *house {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	engine := memkv.New()
	store, err := actorstore.Open(ctx, engine, &actorstore.Options{Limits: m.limits})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{store: store, vfs: vfs.New(nil), name: fmt.Sprintf("greenroom-suite-%d", names.Add(1))}
	if err := h.vfs.Register(h.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if h.haunted {
			return
		}
		if err := errors.Join(h.vfs.Unregister(), store.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// create makes a database that holds image, or nothing.
func (h *house) create(t *testing.T, image []byte) *site {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	h.n++
	name := fmt.Sprintf("%d.db", h.n)
	actor, err := h.store.Named(ctx, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(image) > 0 {
		if err := writeImage(ctx, actor, image); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.vfs.Mount(ctx, name, actor); err != nil {
		t.Fatal(err)
	}
	return &site{
		dsn: fmt.Sprintf("file:/%s?vfs=%s", name, h.name),
		counts: func() vfs.Stats {
			s, err := h.vfs.Stats(name)
			if err != nil {
				t.Error(err)
			}
			return s
		},
		drop: func() {
			if err := errors.Join(h.vfs.Unmount(name), actor.Drop(ctx)); err != nil {
				t.Errorf("drop %s: %v", name, err)
			}
		},
	}
}

// after clears up behind a script and returns the house for the next one: a new
// one, if a connection of this one can't be closed.
func (h *house) after(t *testing.T, m mode, s *site, r reading) *house {
	t.Helper()
	if !r.crashed {
		s.drop()
		return h
	}
	h.haunted = true
	next := newHouse(t, m)
	next.n = h.n
	return next
}

// chunkSize is the length of a chunk of a file, as docs/vfs.md has it.
const chunkSize = 4096

// writeImage stores image as the main file of an actor's database, as it is:
// whatever SQLite may think of it.
func writeImage(ctx context.Context, a *actorstore.Actor, image []byte) error {
	b := &batch.Batch{Mode: batch.Ordered}
	for i := 0; i*chunkSize < len(image); i++ {
		chunk := image[i*chunkSize : min(len(image), (i+1)*chunkSize)]
		b.Put(actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, uint32(i)), chunk)
	}
	size := binary.LittleEndian.AppendUint64([]byte{1, 0}, uint64(len(image))) // version 1, then the size
	b.Final().Put(actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileMain), size)
	return a.Commit(ctx, b)
}
