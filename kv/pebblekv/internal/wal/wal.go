// Package wal is the write-ahead log of a store: the batches that were committed, in the order
// in which they were applied, each with a number. What isn't in the store's tables yet is read
// from it when the store is opened.
//
// It is a sequence of files in the store's directory. Each is filled to a size, with zeros
// written ahead of its end, and is used again under a new name when the tables have what is in
// it: a sync of bytes that are overwritten in place waits for the bytes alone, one of a file
// that has grown for the file system's own journal too. The goroutine that waits for stable
// storage writes and syncs for all that wait at that moment; no other one is in between.
//
// See format.go for what is in a file. The models are SQLite's WAL, for the salt, and Pebble's
// log, for the number up to which records are known to be durable.
package wal

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options say where a log is.
type Options struct {
	FS  vfs.FS
	Dir string
	// FileBytes is the size to which a file is filled. One record may be larger.
	FileBytes int64
	// Hold is from which record on files are kept, 0 for none, and KeepBytes bounds what is kept for that and for readers alone;
	// see Log.Hold.
	Hold      uint64
	KeepBytes int64
	// Failed is told of the error of a write or a sync, after which the log takes nothing any
	// more: what is on stable storage is unknown then.
	Failed func(error)
	// Synced is told of each call that had the disk write out a file or a directory, Wrote of how many
	// bytes of records were written. They may be called concurrently.
	Synced func()
	Wrote  func(bytes int)
}

const (
	// minAhead and maxAhead bound how many zeros are written at once.
	minAhead = 128 << 10
	maxAhead = 1 << 20
	// directBytes is from which size on a batch is written at once, not copied first.
	directBytes = 64 << 10
	// maxSpare is how many files are kept to be used again.
	maxSpare = 2
)

var zeros [minAhead]byte

// A Log takes batches, one at a time: the calls of Append, and that of Close, must not be
// concurrent. All other methods are safe for concurrent use with each other and with these.
type Log struct {
	opts Options

	// These change in Append.
	end, room int64    // of the records in the current file, and of what is written of it, with zeros; no room before the first record
	inFile    uint64   // number of the last record in the current file
	next      *file    // the log goes on there when the current file is full, if any
	ahead     vfs.File // next, if it is open

	// mu guards what the writer, the syncer and readers share. The writer's io and the syncer's turn are taken before it, turn first.
	mu       sync.Mutex
	writer   writer
	syncer   syncer
	files    []*file // by sequence; the writer writes to the last one  +checklocks:mu
	released uint64  // up to which the tables have the records  +checklocks:mu
	err      error   // of the first write or sync that failed  +checklocks:mu

	readers map[*position]struct{} // +checklocks:mu
	held    uint64                 // from which record on files are kept, 0 for none  +checklocks:mu
	keep    int64                  // how many bytes of files are kept for readers and for held  +checklocks:mu
	news    chan struct{}          // closed when synced or err changes; nil if no reader waits  +checklocks:mu
}

// A position is that of a reader: the number of the record that it reads next.
type position struct{ next uint64 }

// ErrClosed is what calls get after Close.
var ErrClosed = errors.New("wal: closed")

// Append appends a batch, which isn't kept, and returns its number. Nothing is promised of it
// yet: see Write and Sync. If the disk is full it fails, and the log is as before.
func (l *Log) Append(batch []byte) (uint64, error) {
	if len(batch) == 0 || int64(len(batch)) > maxBatch {
		return 0, fmt.Errorf("wal: a batch of %d bytes", len(batch))
	}
	size := recordHeader + int64(len(batch))
	if err := l.makeRoom(size); err != nil {
		return 0, err
	}
	direct := len(batch) >= directBytes
	if direct { // no other call may write the header alone
		l.writer.io.Lock()
		defer l.writer.io.Unlock()
	}
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return 0, l.err
	}
	l.writer.last++
	l.end += size
	l.inFile = l.writer.last
	number := l.writer.last
	l.writer.buf = appendHead(l.writer.buf, l.files[len(l.files)-1].salt, number, l.syncer.synced, batch)
	if !direct {
		l.writer.buf = append(l.writer.buf, batch...)
	}
	l.mu.Unlock()
	if direct {
		return number, l.write(batch, nil)
	}
	return number, nil
}

// Write returns when the system has the records up to number, so that they outlive the process.
func (l *Log) Write(number uint64) error {
	l.mu.Lock()
	done, err := l.writer.wrote >= number, l.err
	l.mu.Unlock()
	if done || err != nil {
		return err
	}
	l.writer.io.Lock()
	defer l.writer.io.Unlock()
	return l.write(nil, nil)
}

// Sync returns when the records up to number are on stable storage.
func (l *Log) Sync(number uint64) error {
	l.mu.Lock()
	if l.err != nil || l.syncer.synced >= number {
		defer l.mu.Unlock()
		return l.err
	}
	g, leads := l.syncer.join(number)
	if !leads {
		l.mu.Unlock()
		<-g.done
		return g.err
	}
	yield := l.syncer.crowd && l.syncer.patience.any()
	l.mu.Unlock()
	if yield {
		l.yield()
	}
	l.syncer.turn.Lock()
	defer l.syncer.turn.Unlock()
	return l.sync(g)
}

// yield lets goroutines that are about to append do so. Without it groups are small where the disk is fast, and
// what each sync costs the processor is a fifth of a small transaction.
func (l *Log) yield() {
	before, begin := l.Last(), time.Now()
	runtime.Gosched()
	took := time.Since(begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncer.patience.learn(took, l.writer.last-before)
}

// Last returns the number of the last record.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writer.last
}

// sync writes and syncs what was appended, for g if there is one, with turn held. Without a group it syncs in any case.
func (l *Log) sync(g *group) error {
	l.writer.io.Lock()
	err := l.write(nil, g)
	l.writer.io.Unlock()
	l.mu.Lock()
	out, upto := l.writer.out, l.writer.wrote
	needed := err == nil && (l.syncer.synced < upto || g == nil && out != nil)
	l.mu.Unlock()
	if needed {
		l.told()
		err = out.SyncData()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		err = l.fail(err)
	} else {
		l.syncer.synced = max(l.syncer.synced, upto)
		l.tell()
	}
	l.syncer.end(g, err)
	return err
}

// write writes what was appended, and more behind it, with io held. If there is a group, it is the
// one that is synced then.
func (l *Log) write(more []byte, g *group) error {
	l.mu.Lock()
	if g != nil {
		l.syncer.begin(g, l.writer.last)
	}
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	c := l.writer.take(len(more))
	l.mu.Unlock()
	err := c.write(more)
	if l.opts.Wrote != nil && len(c.buf) > 0 {
		l.opts.Wrote(len(c.buf) + len(more))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return l.fail(err)
	}
	l.writer.written(c)
	return nil
}

// told tells of a sync.
func (l *Log) told() {
	if l.opts.Synced != nil {
		l.opts.Synced()
	}
}

// tell wakes readers.
//
// +checklocks:l.mu
func (l *Log) tell() {
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// fail notes that a write or a sync has failed, and returns the first such error.
//
// +checklocks:l.mu
func (l *Log) fail(err error) error {
	if l.err == nil {
		l.err = fmt.Errorf("write-ahead log: %w", err)
		if l.opts.Failed != nil {
			l.opts.Failed(l.err)
		}
		l.tell()
	}
	return l.err
}

// unneeded returns how many of the first files are no longer needed. The last file is always
// needed: it says how far the records went.
//
// +checklocks:l.mu
func (l *Log) unneeded() (n int) {
	for n+1 < len(l.files) && l.files[n+1].first <= l.released+1 {
		n++
	}
	oldest := l.writer.last + 1
	if l.held > 0 {
		oldest = min(oldest, l.held)
	}
	for r := range l.readers {
		oldest = min(oldest, r.next)
	}
	for kept := int64(0); n > 0 && l.files[n].first > oldest; n-- {
		if kept += l.files[n-1].size; kept > l.keep {
			break
		}
	}
	return n
}

// Hold says that files with the records from number on are kept although the tables have them, up to so many bytes of them; older
// ones go first. A number of 0 ends that.
func (l *Log) Hold(number uint64, most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.keep = number, most
}

// Synced returns up to which number the records are on stable storage.
func (l *Log) Synced() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncer.synced
}

// Release says that the tables have the records up to number.
func (l *Log) Release(number uint64) {
	l.mu.Lock()
	l.released = max(l.released, number)
	var old []*file
	if n := l.unneeded() - maxSpare; n > 0 {
		old = slices.Clone(l.files[:n])
		l.files = slices.Delete(l.files, 0, n)
	}
	l.mu.Unlock()
	for _, f := range old {
		// An extra file does no harm, and Open finds it again.
		_ = l.opts.FS.Remove(f.path)
	}
}

// Size returns how many bytes of files have records that the tables don't have, as Release has
// been told.
func (l *Log) Size() int64 {
	l.mu.Lock()
	number := l.released + 1
	l.mu.Unlock()
	return l.SizeFrom(number)
}

// SizeFrom returns how many bytes of files have records from a number on.
func (l *Log) SizeFrom(number uint64) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number > l.writer.last {
		return 0
	}
	for i, f := range l.files {
		switch {
		case i == len(l.files)-1:
			n += l.writer.at + int64(len(l.writer.buf))
		case l.files[i+1].first > number:
			n += f.size
		}
	}
	return n
}

// Fail makes the log refuse every later record, because err has happened elsewhere.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.fail(err)
}

// Close syncs the log, unless it has failed, and releases it. Nothing can be appended then. A mark says behind the last record that
// it is on stable storage, unless the tables have it.
func (l *Log) Close() error {
	l.syncer.turn.Lock()
	defer l.syncer.turn.Unlock()
	l.mu.Lock()
	out, upto, err := l.writer.out, l.writer.last, l.err
	synced, needed := l.syncer.synced >= upto, l.room > 0 && l.released < upto
	l.mu.Unlock()
	if needed && err == nil && !synced {
		err = l.sync(nil)
	}
	if needed && err == nil {
		l.mark(0)
		err = l.sync(nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = ErrClosed
		l.tell()
	}
	for _, f := range []vfs.File{out, l.ahead} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	l.writer.out, l.ahead = nil, nil
	return err
}
