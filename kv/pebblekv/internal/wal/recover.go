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
	opts.FileBytes = max(opts.FileBytes/blockSize, 1) * blockSize
	l := &Log{opts: opts, syncer: syncer{waiting: new(group)}, readers: map[*position]struct{}{}, held: opts.Hold, keep: opts.KeepBytes}
	files, err := list(opts.FS, opts.Dir)
	if err != nil {
		return nil, err
	}
	end, err := read(opts.FS, files, after, replay)
	if err != nil {
		return nil, err
	}
	l.files, l.end, l.inFile = files[:end.files], end.at, end.last
	if rest := files[end.files:]; len(rest) > 0 && rest[0].seq == behind(l.files) {
		l.next = rest[0]
	}
	if end.last > after {
		// A reader gets what stands there, so it must not be gone after a crash: after one of the process it may only
		// be in the system's memory, of a file that has no record yet and of the one before it, too.
		for _, f := range l.files[max(0, len(l.files)-2):] {
			if err := l.syncFile(f); err != nil {
				return nil, err
			}
		}
	}
	last := max(end.last, after)
	l.writer.last, l.writer.wrote, l.syncer.synced, l.released = last, last, last, after
	if l.next != nil && len(l.files) == 0 { // its header was cut short
		// The log goes on in another file, which this one says, so that it is missed.
		if err := l.rotate(0); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.room = 0
	}
	return l, nil
}

// Read hands the records of the log in a directory to replay, as Open does, and changes nothing. It
// returns the number of the last one, or after itself if no record follows it.
func Read(fs vfs.FS, dir string, after uint64, replay func(number uint64, batch []byte) error) (uint64, error) {
	files, err := list(fs, dir)
	if err != nil {
		return 0, err
	}
	end, err := read(fs, files, after, replay)
	return max(end.last, after), err
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
	opts.FileBytes = 0 // it is a small one
	l := &Log{opts: opts, writer: writer{last: after}}
	err := l.prepare()
	if err == nil {
		err = l.head(blockSize)
	}
	if l.ahead != nil {
		err = errors.Join(err, l.ahead.Close())
	}
	return err
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
			err = f.readHeader(in)
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.seq, b.seq) })
	return files, nil
}

// An end is where the records of a log end.
type end struct {
	files int    // how many files of the list are those of the log
	at    int64  // in the last of them
	last  uint64 // number of its last record
}

// read hands the records behind after to replay, and returns where they end.
func read(fs vfs.FS, files []*file, after uint64, replay func(number uint64, batch []byte) error) (end, error) {
	i := -1
	for k, f := range files {
		if f.state == headed && f.first <= after+1 {
			i = k
		}
	}
	if after == 0 && len(files) == 0 {
		return end{}, nil
	}
	if after == 0 && len(files) == 1 && files[0].seq == 1 && files[0].state == unused { // a crash came before its header
		_, err := files[0].begun(fs)
		return end{}, err
	}
	if i < 0 {
		return end{}, noBegin(files, after)
	}
	i, err := firstBegun(fs, files, i)
	if err != nil {
		return end{}, err
	}
	return readFrom(fs, files, i, after, replay)
}

// firstBegun returns i, or the file before it if the log hasn't gone on in file i: neither has it a record, nor does the file before it
// say so.
func firstBegun(fs vfs.FS, files []*file, i int) (int, error) {
	for ; i > 0 && files[i-1].state == headed && files[i-1].seq+1 == files[i].seq; i-- {
		if begun, err := files[i].begun(fs); begun || err != nil {
			return i, err
		}
		s, err := readFile(fs, files[i-1], 0, nil)
		if err != nil || s.goesOn {
			return i, err
		}
	}
	return i, nil
}

// readFrom is read from file i on, in which the log has gone on.
func readFrom(fs vfs.FS, files []*file, i int, after uint64, replay func(number uint64, batch []byte) error) (end, error) {
	for {
		s, err := readFile(fs, files[i], after, replay)
		if err != nil {
			return end{}, err
		}
		f, at := files[i], end{files: i + 1, at: s.at, last: s.next - 1}
		if i, err = follow(fs, files, i, s); err != nil {
			return end{}, err
		}
		if i == at.files {
			continue
		}
		if most := int64(max(f.blocks, s.blocks)) * blockSize; most > f.size {
			return end{}, fmt.Errorf("%w: %s is cut off: of %d bytes at least it has %d", kv.ErrCorrupt, f.path, most, f.size)
		}
		return at, nil
	}
}

// noBegin returns what is wrong with files none of which has record after and one, or can have it.
func noBegin(files []*file, after uint64) error {
	for _, f := range files {
		switch f.state {
		case damaged:
			return f.bad
		case headed:
			return fmt.Errorf("%w: %s, the first file of the write-ahead log, begins with record %d, and the tables end with %d", kv.ErrCorrupt, f.path, f.first, after)
		}
	}
	if len(files) > 0 {
		return fmt.Errorf("%w: %s has no header, and there is no other file of the write-ahead log", kv.ErrCorrupt, files[0].path)
	}
	return fmt.Errorf("%w: there is no write-ahead log, and the tables end with record %d", kv.ErrCorrupt, after)
}

// readFile hands the records of a file that are behind after to replay, unless it is nil, and returns the scanner that has read
// them all.
func readFile(fs vfs.FS, f *file, after uint64, replay func(number uint64, batch []byte) error) (_ *scanner, err error) {
	in, err := fs.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	s := &scanner{in: in, size: f.size, salt: f.salt, at: f.begin, next: f.first}
	for {
		batch, err := s.record()
		if err == nil && batch == nil && !s.goesOn {
			err = s.tail()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if batch == nil {
			return s, nil
		}
		if s.next-1 > after && replay != nil {
			if err := replay(s.next-1, slices.Clone(batch)); err != nil {
				return nil, err
			}
		}
	}
}

// follow returns the index of the file in which the log goes on behind file i, which s has read, or i itself if it ends
// there.
func follow(fs vfs.FS, files []*file, i int, s *scanner) (int, error) {
	f, rest := files[i], files[i+1:]
	if s.goesOn {
		if len(rest) == 0 || rest[0].seq != f.seq+1 {
			return 0, fmt.Errorf("%w: %s is missing, in which the log goes on behind %s", kv.ErrCorrupt, fs.PathJoin(fs.PathDir(f.path), fileName(f.seq+1)), f.path)
		}
		switch next := rest[0]; {
		case next.state == damaged:
			return 0, next.bad
		case next.state == unused:
			return 0, fmt.Errorf("%w: %s has no header, and the log goes on there behind %s", kv.ErrCorrupt, next.path, f.path)
		case next.first != s.next:
			return 0, fmt.Errorf("%w: %s begins with record %d, and %s ends before %d", kv.ErrCorrupt, next.path, next.first, f.path, s.next)
		}
		return i + 1, nil
	}
	for k, next := range rest {
		begun, err := next.begun(fs)
		switch {
		case err != nil:
			return 0, err
		case begun && k == 0 && next.seq == f.seq+1 && next.first == s.next:
			return i + 1, nil // a mark of version 1, or a damaged one
		case begun:
			return 0, fmt.Errorf("%w: %s ends at %d, before record %d, and %s begins with %d", kv.ErrCorrupt, f.path, s.at, s.next, next.path, next.first)
		}
	}
	return i, nil
}

// begun reports whether the log goes on in f, as the file before it doesn't say.
func (f *file) begun(fs vfs.FS) (begun bool, err error) {
	switch f.state {
	case damaged:
		return false, f.bad
	case headed:
		if f.begin == oldHeaderSize {
			return true, nil
		}
	case unused:
		if f.begin > 0 { // it has the header of an earlier use
			return false, nil
		}
	}
	in, err := fs.Open(f.path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if f.state == headed {
		s := &scanner{in: in, size: f.size, salt: f.salt, at: f.begin, next: f.first}
		batch, err := s.record() // the first says it
		if err == nil && batch == nil && !s.goesOn {
			err = s.tail()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", f.path, err)
		}
		return err == nil && (batch != nil || s.goesOn), err
	}
	s := &scanner{in: in, size: f.size}
	for at := int64(0); at < f.size && err == nil; at += int64(len(s.buf)) {
		var b []byte
		if b, err = s.bytes(at, min(window, f.size-at)); slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
			err = fmt.Errorf("%w: %s has no header", kv.ErrCorrupt, f.path)
		}
	}
	return false, err
}
