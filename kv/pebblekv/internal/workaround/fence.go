package workaround

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Fence stands between Pebble and the file system, and lets Pebble believe
// that the files it can't live without never fail.
//
// Why: Pebble ends the process when it can't write its MANIFEST, and it can't be
// stopped from doing so afterwards: it calls Logger.Fatalf, which one
// may let return, and goes on with its state in doubt. So the error must not reach
// Pebble at all. (The log isn't Pebble's, see package wal, and not behind the fence.)
//
// Instead, the first such failure sets the fault, which poisons the store, and
// from then on the fence writes nothing more: what is on the disk is what a
// crash at that moment would have left, and opening it again is an ordinary
// recovery. Pebble goes on, with its mutexes and queues in order, against files
// that swallow everything, its waiters are woken as if they had succeeded, and
// DB, which looks at the fault after every wait, tells them ErrPoisoned.
//
// A failure is reported before the call that met it returns, so whatever Pebble
// does because of a swallowed write is swallowed as well: nothing on the disk
// can depend on something that isn't.
//
// On a full disk the fence tries again until there is room, the store closes, or the
// store fails otherwise. Pebble waits meanwhile with what it flushes and compacts, and
// reading goes on.
//
// Tables and blob files are another matter: Pebble copes with their failures
// and tries again, so while the store is healthy they pass through, slowed down
// a little because Pebble retries at once and forever. What isn't in the store's
// directory is a checkpoint, which may fail without harm to the store.
type Fence struct {
	vfs.FS
	dir   string
	fault *Fault
	gate  *Gate // is told that Pebble waits for room, and why
	// armed is false while the store is being opened. A failing disk is handled
	// the same then, because Pebble's Open also retries for ever what can't
	// succeed; Open looks at the fault when Pebble's Open has returned.
	armed atomic.Bool
	// closing is closed when the store starts to close.
	closing <-chan struct{}
	// kept is how many bytes of the disk no compaction takes.
	kept int64
	// failures counts the failed operations on tables since the last that
	// succeeded.
	failures atomic.Int32
	// synced is told of each fsync, with the name of the file.
	synced func(name string)
}

var (
	errDead        = errors.New("pebblekv: the store is poisoned and writes no more")
	_       vfs.FS = (*Fence)(nil)
)

// NewFence returns the Fence of the store in the directory dir of a disk, of which compactions leave so many bytes to all else,
// if kept isn't 0. synced is told of each fsync, with the name of the file, and may be called concurrently.
func NewFence(disk vfs.FS, dir string, kept int64, fault *Fault, gate *Gate, synced func(name string)) *Fence {
	return &Fence{FS: disk, dir: dir, kept: kept, fault: fault, gate: gate, closing: gate.closing, synced: synced}
}

// Arm says that the store is open.
func (f *Fence) Arm() { f.armed.Store(true) }

// IsTable reports whether name is a file whose failures Pebble survives.
func IsTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// foreign reports whether name isn't in the directory of the store.
func (f *Fence) foreign(name string) bool {
	rest, ok := strings.CutPrefix(name, f.dir)
	return !ok || rest != "" && rest[0] != '/' && rest[0] != os.PathSeparator
}

// dead reports whether nothing may be written any more.
func (f *Fence) dead() bool { return f.fault.Get() != nil }

// vital handles the error of an operation on a file that Pebble can't live
// without: it is the fault of the store, and Pebble hears of a success. Its own log is
// empty: one whose end finds no room when the store closes lacks nothing.
func (f *Fence) vital(op, name string, err error) error {
	if err == nil || vfs.IsNoSpaceError(err) && strings.HasSuffix(name, ".log") && f.isClosing() {
		return nil
	}
	f.fault.Set(fmt.Errorf("%s %s: %w", op, f.PathBase(name), err))
	return nil
}

// patient runs do, an operation on the file name. While the disk is full it runs do again, unless
// the file is a table: Pebble itself tries those again.
func (f *Fence) patient(name string, do func() error) error {
	err := do()
	for n := 0; vfs.IsNoSpaceError(err) && !IsTable(name) && f.armed.Load(); n++ {
		f.gate.full(err)
		select {
		case <-time.After(backoff(n)):
		case <-f.closing:
			return err
		case <-f.fault.done:
			return err
		}
		err = do()
	}
	return err
}

// backoff is how long to wait after failure n of something that will work again.
func backoff(n int) time.Duration { return min(time.Second, 10*time.Millisecond<<min(n, 10)) }

// table notes how an operation on a table went. Its first failure while a store
// is being opened is fatal.
func (f *Fence) table(op, name string, err error) error {
	switch {
	case err == nil:
		f.failures.Store(0)
	case f.armed.Load():
		f.failures.Add(1)
	default:
		return f.vital(op, name, err)
	}
	return err
}

// note is table or vital, by name.
func (f *Fence) note(op, name string, err error) error {
	if IsTable(name) {
		return f.table(op, name, err)
	}
	return f.vital(op, name, err)
}

// opened wraps a file opened for writing; nil stands for one that swallows.
func (f *Fence) opened(op, name string, file vfs.File, err error) (vfs.File, error) {
	if err := f.note(op, name, err); err != nil {
		return nil, err
	}
	if err != nil {
		file = nil // swallowed
	}
	return &fencedFile{File: file, fence: f, name: name, table: IsTable(name)}, nil
}

// isClosing reports whether the store has begun to close.
func (f *Fence) isClosing() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// pace delays the making of a table after failures, up to a second. On a
// poisoned store it parks the flush or compaction that wants to write until the
// store closes, or it would go round and round.
func (f *Fence) pace() error {
	if f.dead() && f.armed.Load() {
		<-f.closing
		return errDead
	}
	n := f.failures.Load()
	if n == 0 {
		return nil
	}
	select {
	case <-time.After(backoff(int(n))):
	case <-f.closing:
	case <-f.fault.done:
	}
	return nil
}

// Create makes a file in the place of one that may be there.
func (f *Fence) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.foreign(name) {
		return f.FS.Create(name, c)
	}
	if IsTable(name) {
		if err := f.pace(); err != nil {
			return nil, err
		}
	}
	if f.dead() {
		return f.opened("create", name, nil, nil)
	}
	var file vfs.File
	err := f.patient(name, func() (err error) { file, err = f.FS.Create(name, c); return err })
	out, err := f.opened("create", name, file, err)
	if err == nil {
		out.(*fencedFile).compacts = c == "pebble-compaction"
	}
	return out, err
}

// OpenReadWrite opens a file for writing.
func (f *Fence) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.foreign(name) {
		return f.FS.OpenReadWrite(name, c, opts...)
	}
	if f.dead() {
		return f.opened("open", name, nil, nil)
	}
	file, err := f.FS.OpenReadWrite(name, c, opts...)
	return f.opened("open", name, file, err)
}

// OpenDir opens a directory, which Pebble does in order to sync it.
func (f *Fence) OpenDir(name string) (vfs.File, error) {
	if f.foreign(name) {
		return f.FS.OpenDir(name)
	}
	if f.dead() {
		return f.opened("open", name, nil, nil)
	}
	file, err := f.FS.OpenDir(name)
	return f.opened("open", name, file, err)
}

// Link gives a file one more name.
func (f *Fence) Link(old, name string) error {
	if f.foreign(name) {
		return f.FS.Link(old, name)
	}
	if f.dead() {
		return nil
	}
	return f.note("link", name, f.patient(name, func() error { return f.FS.Link(old, name) }))
}

// Rename gives a file another name.
func (f *Fence) Rename(old, name string) error {
	if f.foreign(name) {
		return f.FS.Rename(old, name)
	}
	if f.dead() {
		return nil
	}
	return f.note("rename", name, f.patient(name, func() error { return f.FS.Rename(old, name) }))
}

// Remove passes errors on: a file too many does no harm, and Pebble only logs it.
func (f *Fence) Remove(name string) error {
	if f.dead() {
		return nil
	}
	return f.FS.Remove(name)
}

// RemoveAll is Remove of a tree.
func (f *Fence) RemoveAll(name string) error {
	if f.dead() {
		return nil
	}
	return f.FS.RemoveAll(name)
}

// Unwrap gives Pebble the file system below, see vfs.FS.
func (f *Fence) Unwrap() vfs.FS { return f.FS }

// A fencedFile is a file opened for writing. A nil File swallows everything: it
// stands for one that couldn't be opened.
type fencedFile struct {
	vfs.File
	fence *Fence
	name  string
	table bool
	// compacts says that a compaction writes the file, alone, which may take asked more bytes before the disk is asked again.
	compacts bool
	asked    int
}

// keptEvery is after how many bytes of a table the disk is asked whether a compaction may go on.
const keptEvery = 256 << 10

// scant returns an error if a compaction may not write so many bytes more.
func (f *fencedFile) scant(n int) error {
	if !f.compacts || f.fence.kept <= 0 {
		return nil
	}
	if f.asked -= n; f.asked >= 0 {
		return nil
	}
	f.asked = max(0, keptEvery-n)
	if u, err := f.fence.GetDiskUsage(f.fence.dir); err != nil || u.AvailBytes >= uint64(f.fence.kept)+keptEvery {
		return nil // a disk that doesn't say has room
	}
	return errKept{}
}

// do runs one writing operation: not at all once the store is dead, and with
// its failure noted otherwise.
func (f *fencedFile) do(op string, fn func() error) error {
	if f.fence.dead() || f.File == nil {
		if f.table && f.fence.armed.Load() {
			return errDead
		}
		return nil
	}
	return f.fence.note(op, f.name, fn())
}

func (f *fencedFile) Write(p []byte) (int, error) {
	n := 0
	err := f.do("write", func() error {
		if err := f.scant(len(p)); err != nil {
			return err
		}
		return f.fence.patient(f.name, func() error {
			m, err := f.File.Write(p[n:])
			n += m
			return err
		})
	})
	if err == nil {
		return len(p), nil
	}
	return n, err
}

func (f *fencedFile) WriteAt(p []byte, off int64) (int, error) {
	n := len(p)
	err := f.do("write", func() (err error) { n, err = f.File.WriteAt(p, off); return err })
	if err == nil {
		return len(p), nil
	}
	return n, err
}

func (f *fencedFile) Sync() error {
	return f.do("sync", func() error {
		f.synced()
		return f.File.Sync()
	})
}

func (f *fencedFile) SyncData() error {
	return f.do("sync", func() error {
		f.synced()
		return f.File.SyncData()
	})
}

// SyncTo only begins to write on most systems: it is an fsync where it says so.
func (f *fencedFile) SyncTo(length int64) (full bool, err error) {
	err = f.do("sync", func() (err error) {
		if full, err = f.File.SyncTo(length); full {
			f.synced()
		}
		return err
	})
	return full, err
}

// synced tells of one fsync.
func (f *fencedFile) synced() {
	f.fence.synced(f.name)
}

// Preallocate is a hint: Pebble ignores its errors, and so must the fence.
func (f *fencedFile) Preallocate(offset, length int64) error {
	if f.fence.dead() || f.File == nil {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// Close closes the file below also on a dead store, or it would leak.
func (f *fencedFile) Close() error {
	if f.File == nil {
		return nil
	}
	err := f.File.Close()
	if f.fence.dead() {
		return nil
	}
	return f.fence.note("close", f.name, err)
}

func (f *fencedFile) Read(p []byte) (int, error) {
	if f.File == nil {
		return 0, io.EOF
	}
	return f.File.Read(p)
}

func (f *fencedFile) ReadAt(p []byte, off int64) (int, error) {
	if f.File == nil {
		return 0, io.EOF
	}
	return f.File.ReadAt(p, off)
}

func (f *fencedFile) Stat() (vfs.FileInfo, error) {
	if f.File == nil {
		return swallowed(f.name), nil
	}
	info, err := f.File.Stat()
	if f.fence.note("stat", f.name, err) == nil && err != nil {
		return swallowed(f.name), nil
	}
	return info, err
}

func (f *fencedFile) Prefetch(offset, length int64) error {
	if f.File == nil {
		return nil
	}
	return f.File.Prefetch(offset, length)
}

func (f *fencedFile) Fd() uintptr {
	if f.File == nil {
		return vfs.InvalidFd
	}
	return f.File.Fd()
}

// swallowed describes an empty file of that name.
type swallowed string

func (s swallowed) Name() string           { return string(s) }
func (s swallowed) Size() int64            { return 0 }
func (s swallowed) Mode() fs.FileMode      { return 0o600 }
func (s swallowed) ModTime() time.Time     { return time.Time{} }
func (s swallowed) IsDir() bool            { return false }
func (s swallowed) Sys() any               { return nil }
func (s swallowed) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
