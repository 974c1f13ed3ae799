package pebblekv

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
)

// Archived is a Base that is kept elsewhere, with the records that follow it.
type Archived struct {
	// Small are the files that aren't tables, by their names.
	Small map[string][]byte
	// Tables are the tables, by their names. Of each only the parts are read that are asked for.
	Tables map[string]*io.SectionReader
	// Records are those behind the Base, in order; some may be missing, or parts of some, if only keys are read that these don't
	// change. They are read once, and what they set is held in memory.
	Records iter.Seq2[Record, error]
	// CacheBytes is the size of the cache of uncompressed blocks; 0 means 256 MiB.
	CacheBytes int64
}

// OpenArchived opens what is kept elsewhere as a store, for reading alone. Errors are those of Open, and of the readers.
func OpenArchived(a Archived) (*DB, error) {
	const dir = "store"
	mem := vfs.NewMem()
	for name, data := range a.Small {
		path := mem.PathJoin(dir, name)
		err := mem.MkdirAll(mem.PathDir(path), workaround.DirMode)
		var f vfs.File
		if err == nil {
			f, err = mem.Create(path, vfs.WriteCategoryUnspecified)
		}
		if err == nil {
			_, err = f.Write(bytes.Clone(data)) // with the race detector it writes to what it gets
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	disk := archivedFS{FS: mem, dir: dir, tables: a.Tables}
	return open(dir, &Options{ReadOnly: true, CacheBytes: a.CacheBytes, PatchBytes: -1, records: a.Records}, disk)
}

// archivedFS is a file system with tables that are elsewhere, in one of its directories.
type archivedFS struct {
	vfs.FS
	dir    string
	tables map[string]*io.SectionReader
}

// table returns the table of a path, nil if it isn't one.
func (a archivedFS) table(path string) *io.SectionReader {
	if a.PathDir(path) != a.dir {
		return nil
	}
	return a.tables[a.PathBase(path)]
}

// List lists a directory.
func (a archivedFS) List(dir string) ([]string, error) {
	names, err := a.FS.List(dir)
	if err == nil && dir == a.dir {
		for name := range a.tables {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	return names, err
}

// Open opens a file.
func (a archivedFS) Open(path string, opts ...vfs.OpenOption) (vfs.File, error) {
	if t := a.table(path); t != nil {
		return &archivedFile{SectionReader: io.NewSectionReader(t, 0, t.Size()), name: a.PathBase(path)}, nil
	}
	return a.FS.Open(path, opts...)
}

// Stat says how large a file is.
func (a archivedFS) Stat(path string) (vfs.FileInfo, error) {
	if t := a.table(path); t != nil {
		return (&archivedFile{t, a.PathBase(path)}).Stat()
	}
	return a.FS.Stat(path)
}

// An archivedFile is such a table, open for reading.
type archivedFile struct {
	*io.SectionReader
	name string
}

// errArchived says that a file is elsewhere, and can't be changed.
var errArchived = kv.NotApplied(errReadOnly)

func (f *archivedFile) Close() error                          { return nil }
func (f *archivedFile) Write([]byte) (int, error)             { return 0, errArchived }
func (f *archivedFile) WriteAt([]byte, int64) (int, error)    { return 0, errArchived }
func (f *archivedFile) Preallocate(int64, int64) error        { return errArchived }
func (f *archivedFile) Sync() error                           { return nil }
func (f *archivedFile) SyncTo(int64) (fullSync bool, _ error) { return true, nil }
func (f *archivedFile) SyncData() error                       { return nil }
func (f *archivedFile) Prefetch(int64, int64) error           { return nil }
func (f *archivedFile) Fd() uintptr                           { return vfs.InvalidFd }

// Stat says what is known of it.
func (f *archivedFile) Stat() (vfs.FileInfo, error) { return archivedInfo{f}, nil }

// archivedInfo is what is known of such a file.
type archivedInfo struct{ f *archivedFile }

func (i archivedInfo) Name() string           { return i.f.name }
func (i archivedInfo) Size() int64            { return i.f.SectionReader.Size() }
func (i archivedInfo) Mode() fs.FileMode      { return workaround.FileMode }
func (i archivedInfo) ModTime() time.Time     { return time.Time{} }
func (i archivedInfo) IsDir() bool            { return false }
func (i archivedInfo) Sys() any               { return nil }
func (i archivedInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
