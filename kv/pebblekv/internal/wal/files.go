package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// refused is the error of an append that has changed nothing.
func refused(err error) error {
	return fmt.Errorf("the write-ahead log can't take the record: %w", err)
}

// reserve is for marks behind the last record: that it is on stable storage, which closing says, and that the log goes on.
const reserve = 2 * recordHeader

// makeRoom sees to it that size bytes, and the reserve, can be written behind the last record without the disk
// having to find room for them. If it can't, the log is as before, unless it has failed.
func (l *Log) makeRoom(size int64) error {
	if l.room == 0 || l.end > headerSize && l.end+size > l.opts.FileBytes {
		return l.rotate(size)
	}
	if l.ahead == nil && l.end > l.opts.FileBytes/2 {
		// That it can't be is told when the current file is full, and then if it still can't.
		_ = l.prepare()
	}
	end := l.end + size + reserve
	if end <= l.room {
		return nil
	}
	l.syncer.turn.Lock()
	defer l.syncer.turn.Unlock()
	l.mu.Lock()
	out := l.writer.out
	l.mu.Unlock()
	room, err := l.fill(out, l.room, end+recordHeader)
	if err != nil {
		return refused(err)
	}
	if err := l.sync(nil); err != nil {
		return err
	}
	l.room = room
	l.mark(uint32(room / blockSize))
	return nil
}

// fill writes zeros to a file, from room to end at least, and returns up to where the file is written then.
func (l *Log) fill(out vfs.File, room, end int64) (int64, error) {
	if end-room > maxAhead { // or a record that is refused would fill the disk first
		if u, err := l.opts.FS.GetDiskUsage(l.opts.Dir); err == nil && u.AvailBytes < uint64(end-room) {
			return room, fmt.Errorf("%d bytes: %w", end-room, errkind.ErrNoSpace)
		}
	}
	ahead := min(max(room/8, minAhead), maxAhead)
	for to := min((end+ahead)/minAhead*minAhead, max(roundUp(end), l.opts.FileBytes)); room < to; {
		n, err := out.WriteAt(zeros[:min(to-room, minAhead)], room)
		if err != nil {
			if room >= end {
				return room, nil
			}
			return room, err
		}
		room += int64(n)
	}
	return room, nil
}

// roundUp returns the size of the blocks that n bytes take.
func roundUp(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

// mark appends a mark, which is written with what is appended next. There is room for it.
func (l *Log) mark(what uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writer.buf = appendMark(l.writer.buf, l.files[len(l.files)-1].salt, l.inFile, min(l.syncer.synced, l.inFile), what)
	l.end += recordHeader
}

// rotate begins the next file, with room for size bytes. All records before it are on stable storage then. Up to where the
// current file says that the log goes on there, an error leaves the log as it was.
func (l *Log) rotate(size int64) error {
	l.syncer.turn.Lock()
	defer l.syncer.turn.Unlock()
	err := l.prepare()
	if err == nil {
		err = l.reopen()
	}
	if err == nil {
		err = l.head(headerSize + size + reserve)
	}
	if err != nil {
		return refused(err)
	}
	l.mu.Lock()
	old := l.writer.out
	l.mu.Unlock()
	if old != nil {
		l.mark(goesOn)
		if err := l.sync(nil); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old != nil {
		if err := old.Close(); err != nil {
			return l.fail(err)
		}
		if l.room > 0 {
			l.files[len(l.files)-1].size = l.room
		}
	}
	l.files, l.writer.out, l.writer.at = append(l.files, l.next), l.ahead, headerSize
	l.end, l.room = headerSize, l.next.size
	l.next, l.ahead = nil, nil
	return nil
}

// reopen opens the last file of a log that was opened, to write into it that the log goes on elsewhere.
func (l *Log) reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writer.out != nil || len(l.files) == 0 {
		return nil
	}
	out, err := l.opts.FS.OpenReadWrite(l.files[len(l.files)-1].path, vfs.WriteCategoryUnspecified)
	if err == nil {
		l.writer.out, l.writer.at = out, l.end
	}
	return err
}

// prepare opens the next file, unless it is open: one that isn't needed any more, if there is one. Its name is on stable storage
// then.
func (l *Log) prepare() error {
	if l.ahead != nil {
		return nil
	}
	fs := l.opts.FS
	l.mu.Lock()
	next, old := &file{seq: behind(l.files), begin: headerSize}, (*file)(nil)
	// The one before the current file stays: it says that the log goes on there.
	if len(l.files) > 2 && l.next == nil && l.unneeded() > 0 {
		old = l.files[0]
		l.files = slices.Delete(l.files, 0, 1)
	}
	err := l.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	next.path = fs.PathJoin(l.opts.Dir, fileName(next.seq))
	if old != nil && fs.Rename(old.path, next.path) == nil {
		l.next = old
	}
	if l.next != nil && l.next.size <= 2*l.opts.FileBytes {
		next.size = l.next.size
		l.ahead, err = fs.OpenReadWrite(next.path, vfs.WriteCategoryUnspecified)
	} else {
		l.ahead, err = fs.Create(next.path, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return err
	}
	l.next = next
	if err = l.syncDir(); err != nil {
		err = errors.Join(err, l.drop())
	}
	return err
}

// head gives the next file at least size bytes and a header, and syncs it.
func (l *Log) head(size int64) (err error) {
	f, before := l.next, l.next.size
	l.mu.Lock()
	f.first, f.salt = l.writer.last+1, rand.Uint32()
	l.mu.Unlock()
	if f.size, err = l.fill(l.ahead, before, size); err == nil {
		f.blocks = uint32(f.size / blockSize)
		if _, err = l.ahead.WriteAt(f.header(), 0); err == nil {
			l.told()
			err = l.ahead.Sync()
		}
	} else if f.size = before; size <= l.opts.FileBytes {
		return err // there may be room later
	}
	if err != nil {
		err = errors.Join(err, l.drop())
	}
	return err
}

// drop removes the next file, if it is open.
func (l *Log) drop() error {
	if l.ahead == nil {
		return nil
	}
	out, f := l.ahead, l.next
	l.next, l.ahead = nil, nil
	return errors.Join(out.Close(), l.opts.FS.Remove(f.path))
}

// syncDir syncs the directory, so that the names in it outlive a crash.
func (l *Log) syncDir() error {
	d, err := l.opts.FS.OpenDir(l.opts.Dir)
	if err != nil {
		return err
	}
	l.told()
	return errors.Join(d.Sync(), d.Close())
}

// behind returns the sequence number of the file behind those.
func behind(files []*file) uint64 {
	if len(files) == 0 {
		return 1
	}
	return files[len(files)-1].seq + 1
}

// syncFile syncs a file.
func (l *Log) syncFile(f *file) error {
	out, err := l.opts.FS.OpenReadWrite(f.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	l.told()
	return errors.Join(out.Sync(), out.Close())
}
