package wal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/kv"
)

// Open opens the log in a directory for appending. It first hands the records behind number after
// to replay, in order, and when the tables have them Release is to be told: up to Last. The batches
// are replay's, to keep.
//
// after is up to where the tables have everything. If it isn't 0 there must be a log, and where
// there is one it must go on from after.
//
// Errors: kv.ErrCorrupt if records are missing, or damaged that were on stable storage;
// *kv.FormatError.
func Open(opts Options, after uint64, replay func(number uint64, batch []byte) error) (*Log, error) {
	l := &Log{opts: opts, waiting: new(group), readers: map[*position]struct{}{}}
	var err error
	if l.files, err = list(opts.FS, opts.Dir); err != nil {
		return nil, err
	}
	last, err := read(opts.FS, l.files, after, replay)
	if err != nil {
		return nil, err
	}
	if last > after {
		// A reader gets what stands there, so it must not be gone after a crash: after one of the
		// process it may only be in the system's memory.
		f, err := opts.FS.OpenReadWrite(l.files[len(l.files)-1].path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, err
		}
		l.told()
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return nil, err
		}
	}
	last = max(last, after)
	l.last, l.wrote, l.synced, l.released = last, last, last, after
	return l, nil
}

// Read hands the records of the log in a directory to replay, as Open does, and changes nothing. It
// returns the number of the last one, or after itself if no record follows it.
func Read(fs vfs.FS, dir string, after uint64, replay func(number uint64, batch []byte) error) (uint64, error) {
	files, err := list(fs, dir)
	if err != nil {
		return 0, err
	}
	last, err := read(fs, files, after, replay)
	return max(last, after), err
}

// Exists says whether there is a log in a directory, be it an empty one.
func Exists(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := fileSeq(name)
		return ok
	}), err
}

// Create makes an empty log whose first record will have number after and one, in a directory that
// has none.
func Create(opts Options, after uint64) error {
	l := &Log{opts: opts, last: after}
	if _, err := l.next(); err != nil {
		return err
	}
	return l.syncDir()
}

// list returns the files of the log in a directory, in order.
func list(fs vfs.FS, dir string) ([]*file, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var files []*file
	for _, name := range names {
		seq, ok := fileSeq(name)
		if !ok {
			continue
		}
		f := &file{path: fs.PathJoin(dir, name), seq: seq}
		in, err := fs.Open(f.path)
		if err != nil {
			return nil, err
		}
		info, err := in.Stat()
		if err == nil {
			f.size = info.Size()
			f.bad = f.readHeader(in)
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.seq, b.seq) })
	return files, nil
}

// read hands the records behind after to replay, and returns the number of the last one.
func read(fs vfs.FS, files []*file, after uint64, replay func(number uint64, batch []byte) error) (last uint64, err error) {
	begin := -1
	for i, f := range files {
		if f.bad == nil && f.first <= after+1 {
			begin = i
		}
	}
	if begin < 0 && after == 0 && len(files) == 0 {
		return 0, nil
	}
	if begin < 0 {
		return 0, fmt.Errorf("%w: the write-ahead log has no records behind %d, which is up to where the tables go", kv.ErrCorrupt, after)
	}
	for i, f := range files[begin:] {
		var next *file
		if i++; begin+i < len(files) {
			next = files[begin+i]
		}
		if last, err = readFile(fs, f, next, after, replay); err != nil {
			return last, err
		}
	}
	return last, nil
}

// readFile is read of one file, and next the one behind it, nil if it is the last one.
func readFile(fs vfs.FS, f, next *file, after uint64, replay func(number uint64, batch []byte) error) (last uint64, err error) {
	if f.bad != nil {
		return 0, f.bad
	}
	if next != nil && next.bad != nil {
		return 0, next.bad
	}
	in, err := fs.Open(f.path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	s := &scanner{in: in, size: f.size, salt: f.salt, at: headerSize, next: f.first}
	for next == nil || s.next < next.first {
		batch, err := s.record()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.path, err)
		}
		if batch == nil {
			break
		}
		if s.next-1 > after {
			if err := replay(s.next-1, slices.Clone(batch)); err != nil {
				return 0, err
			}
		}
	}
	if next != nil && s.next != next.first {
		return 0, fmt.Errorf("%w: %s ends at %d, before record %d, and the next file begins with %d", kv.ErrCorrupt, f.path, s.at, s.next, next.first)
	}
	if next == nil {
		if err := s.tail(); err != nil {
			return 0, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return s.next - 1, nil
}
