package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
)

// A Base is a state of a store as the files of a directory. It is made without copying: a table is the store's own
// file under one more name, and never changes. It takes room of its own when the store doesn't need a table any more that it has.
// Its methods are safe for concurrent use.
type Base struct {
	// Number is that of the last commit that is in it.
	Number uint64
	// Files are its files: tables, and what says which tables there are.
	Files []BaseFile

	disk vfs.FS
	dir  string
}

// A BaseFile is one file of a Base.
type BaseFile struct {
	// Name is relative to the directory, with slashes.
	Name string
	// Size is in bytes.
	Size int64
	// Table says that it is a table: of a store that goes on from the Base, another file never has its name.
	Table bool
}

// baseCache is the size of the cache that a Base is looked into with, in bytes.
const baseCache = 1 << 20

// Base makes one of the newest state. It must be closed; there can be one at a time. ctx ends waiting for the tables.
func (r *Records) Base(ctx context.Context) (_ *Base, err error) {
	j := r.in
	if err := j.begin(ctx); err != nil {
		return nil, err
	}
	defer j.life.Leave()
	b := &Base{disk: j.fence.FS, dir: j.fence.FS.PathJoin(j.dir, baseDir)}
	if err := b.Close(); err != nil { // what a crash may have left
		return nil, err
	}
	if err := j.checkpoint(ctx, b.dir); err != nil {
		return nil, j.verdict(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	state, err := open(b.dir, &Options{ReadOnly: true, CacheBytes: baseCache}, b.disk)
	if err != nil {
		return nil, err
	}
	b.Number, err = flushed(state.store.db)
	if err = errors.Join(err, state.Close()); err == nil {
		err = b.list("")
	}
	if err != nil {
		return nil, wrap(err)
	}
	return b, nil
}

// list adds the files of one of its directories.
func (b *Base) list(dir string) error {
	names, err := b.disk.List(b.disk.PathJoin(b.dir, dir))
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		name = strings.TrimPrefix(dir+"/"+name, "/")
		info, err := b.disk.Stat(b.disk.PathJoin(b.dir, name))
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = b.list(name)
		} else {
			b.Files = append(b.Files, BaseFile{Name: name, Size: info.Size(), Table: strings.HasSuffix(name, ".sst")})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A ReaderAtCloser is a file that is open.
type ReaderAtCloser interface {
	io.ReaderAt
	io.Closer
}

// Open opens one of its files, which the caller closes.
func (b *Base) Open(name string) (ReaderAtCloser, error) {
	f, err := b.disk.Open(b.disk.PathJoin(b.dir, name))
	return f, wrap(err)
}

// Close removes the files.
func (b *Base) Close() error { return wrap(b.disk.RemoveAll(b.dir)) }

// Restore appends records to the store in a directory, which is made of the files of a Base, in order. It leaves out
// those that the Base has. It returns the number of the last commit that the store has then. All of it is on stable
// storage.
//
// Errors: those of Open and of records; kv.ErrCorrupt if a record is missing.
func Restore(dir string, records iter.Seq2[Record, error]) (last uint64, err error) {
	return restore(dir, records, workaround.OnDisk)
}

// restore is Restore on any file system.
func restore(dir string, records iter.Seq2[Record, error], disk vfs.FS) (last uint64, err error) {
	d, err := open(dir, &Options{MustExist: true, PatchBytes: -1}, disk)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	j := d.commits.journal
	j.clock.now, last = nil, j.log.Last()
	for r, err := range records {
		if err == nil && r.Number > last {
			err = j.replay(r)
			last = j.log.Last()
		}
		if err != nil {
			return last, err
		}
	}
	return last, j.verdict(j.log.Sync(last))
}

// replay applies a record of another store's log. Nothing reads the store yet.
func (j *journal) replay(r Record) error {
	if err := j.gate.Wait(context.Background()); err != nil {
		return err
	}
	if next := j.log.Last() + 1; r.Number != next {
		return fmt.Errorf("%w: commit %d is missing, and %d follows", kv.ErrCorrupt, next, r.Number)
	}
	b := j.db.NewBatch()
	err := b.SetRepr(append(make([]byte, seqNumBytes), r.Batch...))
	if err == nil {
		j.order.Lock()
		_, err = j.put(b)
		j.order.Unlock()
	}
	return j.verdict(workaround.Full(errors.Join(err, b.Close())))
}
