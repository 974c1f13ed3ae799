package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// RestoreOptions say how a store is made. The zero value is fine.
type RestoreOptions struct {
	// Progress, unless it is nil, is called with how many bytes of how many were read. Calls don't overlap.
	Progress func(done, of int64)
	// Check, unless it is nil, is called with the folder of the store when all of it is there, before it has its name. An error ends the
	// restore.
	Check func(ctx context.Context, dir string) error
}

// restoring is what the name of a directory ends with in which a store is being made.
const restoring = ".restoring"

// Restore makes a store of a state in the directory dir, which must not exist, or be empty, and be no mount point. The store is there as a whole or not at all: it is
// made in a directory beside, whose name ends with ".restoring", which an earlier attempt may have left, and which is removed after an
// error. If dir is a symbolic link it stays, and must lead to a directory.
//
// The checksum of each object is compared. The store goes on with a history of its own; a Writer of it may write to this
// archive, where it begins a lineage.
//
// Errors: fs.ErrExist, ErrNoState, ErrBookmark, kv.ErrCorrupt with the name of the object, those of the bucket, of the disk and of Check.
func (a *Archive) Restore(ctx context.Context, m Bookmark, dir string, o *RestoreOptions) (err error) {
	if o == nil {
		o = &RestoreOptions{}
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil { // the link stays, and the store is where it leads
		dir = real
	} else if _, lerr := os.Readlink(dir); lerr == nil {
		return fmt.Errorf("archive: restore to %s, which is a symbolic link: %w", dir, err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("archive: restore to %s: %w", dir, fs.ErrExist)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	at := dir + restoring
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(at))
		}
	}()
	var p *plan
	err = again(func() error {
		p, err = a.plan(ctx, m)
		return err
	})
	if err == nil {
		err = makeRoom(dir)
	}
	if err == nil {
		err = a.build(ctx, p, at, o)
	}
	err = a.gone(ctx, m, err)
	if err == nil && o.Check != nil {
		err = o.Check(ctx, at)
	}
	if err == nil {
		err = os.Rename(at, dir)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(dir))
	}
	return err
}

// makeRoom removes the empty folder that a store replaces, before much is read for it: one that can't be removed, as a disk is mounted on it, can't be replaced.
func makeRoom(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("archive: %s can't be replaced: restore to a folder in it: %w", dir, err)
	}
	return nil
}

// build makes the files of a store, and has it take in the records.
func (a *Archive) build(ctx context.Context, p *plan, dir string, o *RestoreOptions) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	total := p.base.bytes()
	for _, s := range p.log {
		total += s.size
	}
	r := &progress{of: total, tell: o.Progress}
	if err := a.files(ctx, p.base, dir, r); err != nil {
		return err
	}
	last, err := pebblekv.Restore(dir, func(yield func(pebblekv.Record, error) bool) {
		for rec, err := range p.records(ctx, a.bucket, nil) {
			r.add(int64(len(rec.Batch)))
			if !yield(rec, err) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if last != p.number {
		return fmt.Errorf("%w: the base has %d commits, and %d with what follows, in place of %d", kv.ErrCorrupt, p.base.Number, last, p.number)
	}
	db, err := pebblekv.Open(dir, &pebblekv.Options{MustExist: true})
	if err != nil {
		return err
	}
	// It knows from where it is, and keeps nothing of its log.
	err = db.Records().Hold(pebblekv.Held{For: owner{archive: a.manifest.ID}.String()}, true)
	return errors.Join(err, db.Close())
}

// files writes the files of a base.
func (a *Archive) files(ctx context.Context, l *baseList, dir string, r *progress) error {
	folders := map[string]bool{dir: true}
	for i := range l.Files {
		folder := filepath.Dir(filepath.Join(dir, filepath.FromSlash(l.Files[i].Name)))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		folders[folder] = true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range l.Files {
		f := &l.Files[i]
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := a.file(ctx, f, path, r); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for folder := range folders {
		if err := syncFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

// file writes one of them.
func (a *Archive) file(ctx context.Context, f *baseFile, path string, r *progress) (err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if !f.table() {
		if _, err = out.Write(f.Data); err == nil {
			r.add(f.Size)
			err = out.Sync()
		}
		return err
	}
	if err := copyTable(ctx, a.bucket, f, out, r); err != nil {
		return err
	}
	return out.Sync()
}

// A progress counts what was read.
type progress struct {
	of   int64
	tell func(done, of int64)
	done atomic.Int64
	mu   sync.Mutex
}

// Write counts bytes.
func (p *progress) Write(b []byte) (int, error) {
	p.add(int64(len(b)))
	return len(b), nil
}

func (p *progress) add(n int64) {
	done := p.done.Add(n)
	if p.tell != nil && p.mu.TryLock() { // or another call tells
		defer p.mu.Unlock()
		p.tell(min(done, p.of), p.of)
	}
}

// syncFolder returns when the names in a folder are on stable storage.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(ignoreUnsupported(d.Sync()), d.Close())
}

// ignoreUnsupported is err, unless that says that folders can't be synced, as Windows does.
func ignoreUnsupported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) {
		return nil
	}
	return err
}
