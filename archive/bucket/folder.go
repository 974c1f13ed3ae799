package bucket

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// folder is a Bucket in a directory.
type folder struct {
	dir string

	mu    sync.Mutex
	ready bool // objects can be stored: the directories for that are there  +checklocks:mu
}

// Folder returns a Bucket in a directory, for its owner alone: directories have the mode 0700 and files 0600, whatever the umask is. Each object is a
// file of its name. Nothing is made or changed before the first Put, which makes the directory if need be: so one that is mounted for reading alone can be read, and
// one that doesn't exist has no objects.
func Folder(dir string) (Bucket, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &folder{dir: dir}, nil
}

// prepare makes the directories that every Put needs, and removes what was left in them, once.
func (f *folder) prepare() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready {
		return nil
	}
	err := os.MkdirAll(f.unfinished(), 0o700)
	if err == nil {
		err = f.tidy()
	}
	f.ready = err == nil
	return err
}

// unfinished is the directory of files that aren't objects yet.
func (f *folder) unfinished() string { return filepath.Join(f.dir, ".unfinished") }

// maxUnfinished is how long an object may be written to.
const maxUnfinished = 24 * time.Hour

// tidy removes what was left unfinished by a process that crashed.
func (f *folder) tidy() error {
	entries, err := os.ReadDir(f.unfinished())
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr == nil && time.Since(info.ModTime()) > maxUnfinished {
			ierr = os.Remove(filepath.Join(f.unfinished(), e.Name()))
		}
		err = errors.Join(err, missingIsFine(ierr))
	}
	return err
}

// Put writes a file of another name, and gives it the object's when all of it is on stable storage.
func (f *folder) Put(ctx context.Context, name string, body *io.SectionReader, how How) (err error) {
	if err := cmp.Or(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	path := f.path(name)
	if err := f.prepare(); err != nil {
		return err
	}
	if err := f.makeFor(path); err != nil {
		return err
	}
	out, err := os.CreateTemp(f.unfinished(), "*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, missingIsFine(os.Remove(out.Name()))) }()
	_, err = io.Copy(out, &reader{ctx, io.NewSectionReader(body, 0, body.Size())})
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if how == Replacing {
		err = os.Rename(out.Name(), path)
	} else if err = os.Link(out.Name(), path); errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// makeFor makes the directories in which path is to be, on stable storage.
func (f *folder) makeFor(path string) error {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err == nil || dir == f.dir {
		return err
	}
	if err := f.makeFor(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// Get opens the file.
func (f *folder) Get(ctx context.Context, name string, offset, length int64) (_ io.ReadCloser, _ Object, err error) {
	if err := cmp.Or(CheckName(name), ctx.Err()); err != nil {
		return nil, Object{}, err
	}
	in, err := os.Open(f.path(name))
	if err != nil {
		return nil, Object{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	info, err := in.Stat()
	if err != nil {
		return nil, Object{}, err
	}
	o := Object{Name: name, Size: info.Size(), Modified: info.ModTime()}
	if length < 0 || length > o.Size-offset {
		length = max(0, o.Size-offset)
	}
	return part{&reader{ctx, io.NewSectionReader(in, offset, length)}, in}, o, nil
}

// part is a part of a file.
type part struct {
	io.Reader
	io.Closer
}

// reader reads until its context ends.
type reader struct {
	ctx context.Context
	in  io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}

// List walks the directories that may have such names.
func (f *folder) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		dir, _ := filepath.Split(prefix)
		_, err := f.list(ctx, strings.TrimSuffix(dir, "/"), prefix, yield)
		if err != nil {
			yield(Object{}, err)
		}
	}
}

// list yields what is in the directory dir of f, "" for f itself, and reports whether more is wanted.
func (f *folder) list(ctx context.Context, dir, prefix string, yield func(Object, error) bool) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(filepath.Join(f.dir, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	sortKey := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortKey(a), sortKey(b)) })
	for _, e := range entries {
		name := strings.TrimPrefix(dir+"/"+e.Name(), "/")
		if strings.HasPrefix(e.Name(), ".") || !strings.HasPrefix(name, prefix) && !(e.IsDir() && strings.HasPrefix(prefix, name+"/")) {
			continue
		}
		if e.IsDir() {
			if more, err := f.list(ctx, name, prefix, yield); !more || err != nil {
				return more, err
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return false, err
		}
		if !yield(Object{Name: name, Size: info.Size(), Modified: info.ModTime()}, nil) {
			return false, nil
		}
	}
	return true, nil
}

// Delete removes the file.
func (f *folder) Delete(ctx context.Context, name string) error {
	if err := cmp.Or(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	return missingIsFine(os.Remove(f.path(name)))
}

// path is the file of an object.
func (f *folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// syncDir returns when the names in a directory are on stable storage, where the system has a call for that.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// missingIsFine is err unless that says that a file doesn't exist.
func missingIsFine(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
