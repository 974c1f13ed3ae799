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

	// turn is held by the goroutine that syncs, io by the one that writes, and mu for what they share. They
	// are taken in this order.
	turn, io sync.Mutex
	mu       sync.Mutex
	files    []*file  // by sequence; the last one is out  +checklocks:mu
	out      vfs.File // nil as long as nothing is to be written  +checklocks:mu
	buf      []byte   // records that aren't written yet  +checklocks:mu
	spare    []byte   // memory for the next  +checklocks:mu
	at       int64    // where in the file they go  +checklocks:mu
	last     uint64   // number of the last record  +checklocks:mu
	wrote    uint64   // up to which they are written  +checklocks:mu
	taken    uint64   // up to which atWork syncs  +checklocks:mu
	synced   uint64   // up to which they are on stable storage  +checklocks:mu
	released uint64   // up to which the tables have them  +checklocks:mu
	atWork   *group   // that is being synced  +checklocks:mu
	waiting  *group   // that is synced next  +checklocks:mu
	idle     *group   // that can be used again, if any  +checklocks:mu
	crowd    bool     // several waited for the last sync  +checklocks:mu
	patience patience // of a leader with other goroutines  +checklocks:mu
	err      error    // of the first write or sync that failed  +checklocks:mu

	readers map[*position]struct{} // +checklocks:mu
	held    uint64                 // from which record on files are kept, 0 for none  +checklocks:mu
	keep    int64                  // how many bytes of files are kept for readers and for that  +checklocks:mu
	news    chan struct{}          // closed when synced or err change, nil if nobody waits for that  +checklocks:mu
}

// A group is the goroutines that wait for the same sync. The first one leads it: it does the work.
type group struct {
	led  bool
	done chan struct{} // closed after the sync, nil if the leader is alone
	err  error
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
	if direct { // nobody may write the header alone
		l.io.Lock()
		defer l.io.Unlock()
	}
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return 0, l.err
	}
	l.last++
	l.end += size
	l.inFile = l.last
	number := l.last
	l.buf = appendHead(l.buf, l.files[len(l.files)-1].salt, number, l.synced, batch)
	if !direct {
		l.buf = append(l.buf, batch...)
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
	done, err := l.wrote >= number, l.err
	l.mu.Unlock()
	if done || err != nil {
		return err
	}
	l.io.Lock()
	defer l.io.Unlock()
	return l.write(nil, nil)
}

// Sync returns when the records up to number are on stable storage.
func (l *Log) Sync(number uint64) error {
	l.mu.Lock()
	if l.err != nil || l.synced >= number {
		defer l.mu.Unlock()
		return l.err
	}
	g := l.waiting
	if l.atWork != nil && l.taken >= number {
		g = l.atWork
	}
	if g.led {
		if g.done == nil {
			g.done = make(chan struct{})
		}
		l.mu.Unlock()
		<-g.done
		return g.err
	}
	g.led = true
	yield := l.crowd && l.patience.any()
	l.mu.Unlock()
	if yield {
		l.yield()
	}
	l.turn.Lock()
	defer l.turn.Unlock()
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
	l.patience.learn(took, l.last-before)
}

// A patience says whether it is worth it to let other goroutines go on before a sync: they may be busy with
// anything, for milliseconds each.
type patience struct {
	left  int // how many syncs don't wait from now on
	pause int // how many did not after the last time that it took too long
}

const (
	// maxWait is how long a leader waits for each record of others.
	maxWait = time.Millisecond
	// minPause and maxPause bound how many syncs don't wait after one that took longer.
	minPause = 16
	maxPause = 4096
)

// any reports whether a sync waits. It is asked once for each.
func (p *patience) any() bool {
	if p.left == 0 {
		return true
	}
	p.left--
	return false
}

// learn notes how long it took until others went on, and how many records they appended.
func (p *patience) learn(took time.Duration, records uint64) {
	switch {
	case took > maxWait*time.Duration(max(1, records)):
		p.pause = min(max(minPause, 2*p.pause), maxPause)
		p.left = p.pause
	case p.pause > 0:
		p.pause--
	}
}

// Last returns the number of the last record.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// sync writes and syncs what was appended, for g if there is one, with turn held. Without a group it syncs in any case.
func (l *Log) sync(g *group) error {
	l.io.Lock()
	err := l.write(nil, g)
	l.io.Unlock()
	l.mu.Lock()
	out, upto := l.out, l.wrote
	needed := err == nil && (l.synced < upto || g == nil && out != nil)
	l.mu.Unlock()
	if needed {
		l.told()
		err = out.SyncData()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.atWork = nil
	if err != nil {
		err = l.fail(err)
	} else {
		l.synced = max(l.synced, upto)
		l.tell()
	}
	if g != nil {
		l.crowd = g.done != nil
	}
	switch {
	case g == nil:
	case g.done != nil:
		g.err = err
		close(g.done)
	default:
		*g = group{}
		l.idle = g
	}
	return err
}

// write writes what was appended, and more behind it, with io held. If there is a group, it is the
// one that is synced then.
func (l *Log) write(more []byte, g *group) error {
	l.mu.Lock()
	if g != nil {
		l.waiting, l.atWork, l.taken, l.idle = l.idle, g, l.last, nil
		if l.waiting == nil {
			l.waiting = new(group)
		}
	}
	b, at, out, upto, err := l.buf, l.at, l.out, l.last, l.err
	if err == nil {
		l.buf, l.at = l.spare[:0], at+int64(len(b)+len(more))
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if len(b) > 0 {
		_, err = out.WriteAt(b, at)
	}
	if len(more) > 0 && err == nil {
		_, err = out.WriteAt(more, at+int64(len(b)))
	}
	if l.opts.Wrote != nil && len(b) > 0 {
		l.opts.Wrote(len(b) + len(more))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return l.fail(err)
	}
	l.wrote = upto
	if l.spare = b; cap(b) > maxAhead {
		l.spare = nil
	}
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

// unneeded returns how many of the first files nobody needs any more. The last one is always
// needed: it says up to where there were records.
//
// +checklocks:l.mu
func (l *Log) unneeded() (n int) {
	for n+1 < len(l.files) && l.files[n+1].first <= l.released+1 {
		n++
	}
	oldest := l.last + 1
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
	return l.synced
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
		// A file too many hurts nobody, and is found again when the log is opened.
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
	if number > l.last {
		return 0
	}
	for i, f := range l.files {
		switch {
		case i == len(l.files)-1:
			n += l.at + int64(len(l.buf))
		case l.files[i+1].first > number:
			n += f.size
		}
	}
	return n
}

// Fail has the log take nothing any more, since err has happened elsewhere.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.fail(err)
}

// Close syncs the log, unless it has failed, and releases it. Nothing can be appended then. A mark says behind the last record that
// it is on stable storage, unless the tables have it.
func (l *Log) Close() error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	out, upto, err := l.out, l.last, l.err
	synced, needed := l.synced >= upto, l.room > 0 && l.released < upto
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
	l.out, l.ahead = nil, nil
	return err
}
