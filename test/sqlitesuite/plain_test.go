package sqlitesuite

import (
	"fmt"
	"io"
	"testing"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// plain is the simplest VFS there is: files in memory that behave as on a disk,
// for one connection at a time. It answers for stock SQLite where memdb can't:
// memdb has no journal, no partial pages, and no room for a page number out of
// nowhere, and a damaged database holds such numbers.
type plain struct {
	name  string
	files map[string]*plainFile
	n     int
}

func newPlain(t *testing.T) *plain {
	t.Helper()
	p := &plain{name: fmt.Sprintf("plain-%d", names.Add(1)), files: map[string]*plainFile{}}
	sqlitevfs.Register(p.name, p)
	t.Cleanup(func() { sqlitevfs.Unregister(p.name) })
	return p
}

// create makes a database that holds image, or nothing.
func (p *plain) create(t *testing.T, image []byte) *site {
	t.Helper()
	p.n++
	name := fmt.Sprintf("/%d.db", p.n)
	f := newPlainFile()
	if _, err := f.WriteAt(image, 0); err != nil {
		t.Fatal(err)
	}
	p.files[name] = f
	return &site{
		dsn:  "file:" + name + "?vfs=" + p.name,
		drop: func() { clear(p.files) },
	}
}

// Open implements sqlitevfs.VFS. A file without a name is a temporary one.
func (p *plain) Open(name string, flags sqlitevfs.OpenFlag) (sqlitevfs.File, sqlitevfs.OpenFlag, error) {
	if name == "" {
		return newPlainFile(), flags, nil
	}
	f := p.files[name]
	if f == nil {
		if flags&sqlitevfs.OPEN_CREATE == 0 || flags&sqlitevfs.OPEN_MAIN_DB != 0 {
			return nil, flags, sqlite3.CANTOPEN
		}
		f = newPlainFile()
		p.files[name] = f
	}
	return f, flags, nil
}

// Delete implements sqlitevfs.VFS.
func (p *plain) Delete(name string, _ bool) error {
	if p.files[name] == nil {
		return sqlite3.IOERR_DELETE_NOENT
	}
	delete(p.files, name)
	return nil
}

// Access implements sqlitevfs.VFS.
func (p *plain) Access(name string, _ sqlitevfs.AccessFlag) (bool, error) {
	return p.files[name] != nil, nil
}

// FullPathname implements sqlitevfs.VFS.
func (p *plain) FullPathname(name string) (string, error) { return name, nil }

// sectorSize is a disk's, from which SQLite takes the page size.
const sectorSize = 4096

// A plainFile is the sectors of a file that were ever written.
type plainFile struct {
	sectors map[int64]*[sectorSize]byte
	size    int64
}

func newPlainFile() *plainFile { return &plainFile{sectors: map[int64]*[sectorSize]byte{}} }

// each calls fn for the parts of b, which lies at off, with their sectors.
func (f *plainFile) each(b []byte, off int64, fn func(part, sector []byte)) {
	for len(b) > 0 {
		i, at := off/sectorSize, off%sectorSize
		n := min(int64(len(b)), sectorSize-at)
		if f.sectors[i] == nil {
			f.sectors[i] = new([sectorSize]byte)
		}
		fn(b[:n], f.sectors[i][at:])
		b, off = b[n:], off+n
	}
}

// ReadAt implements io.ReaderAt.
func (f *plainFile) ReadAt(b []byte, off int64) (n int, err error) {
	if rest := max(0, f.size-off); rest < int64(len(b)) {
		b, err = b[:rest], io.EOF
	}
	f.each(b, off, func(part, sector []byte) { copy(part, sector) })
	return len(b), err
}

// WriteAt implements io.WriterAt.
func (f *plainFile) WriteAt(b []byte, off int64) (n int, err error) {
	f.each(b, off, func(part, sector []byte) { copy(sector, part) })
	f.size = max(f.size, off+int64(len(b)))
	return len(b), nil
}

// Truncate implements sqlitevfs.File.
func (f *plainFile) Truncate(size int64) error {
	for i, sector := range f.sectors {
		if from := max(0, size-i*sectorSize); from < sectorSize {
			clear(sector[from:])
		}
	}
	f.size = size
	return nil
}

// The rest of sqlitevfs.File, for a file that one connection uses.

func (f *plainFile) Close() error                     { return nil }
func (f *plainFile) Sync(sqlitevfs.SyncFlag) error    { return nil }
func (f *plainFile) Size() (int64, error)             { return f.size, nil }
func (f *plainFile) Lock(sqlitevfs.LockLevel) error   { return nil }
func (f *plainFile) Unlock(sqlitevfs.LockLevel) error { return nil }
func (f *plainFile) CheckReservedLock() (bool, error) { return false, nil }
func (f *plainFile) SectorSize() int                  { return sectorSize }

// DeviceCharacteristics implements sqlitevfs.File, with what SQLite's own VFS for
// Unix claims: no byte of a sector changes but those written, and parts of pages
// can be read.
func (f *plainFile) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic {
	return sqlitevfs.IOCAP_POWERSAFE_OVERWRITE | sqlitevfs.IOCAP_SUBPAGE_READ
}
