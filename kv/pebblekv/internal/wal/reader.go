package wal

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrGone is what a Reader returns if the log no longer has its next record, or never had it: after
// a crash the tables alone may have it. The reader's caller must then begin anew, with a copy of
// the tables.
var ErrGone = errors.New("wal: the record is no longer in the log")

// A Reader reads the records that are on stable storage, in order. Files that it hasn't passed are
// kept, up to Options.KeepBytes. Its methods must not be called concurrently.
type Reader struct {
	log  *Log
	pos  *position // changes under log.mu; may be behind next, within a file
	next uint64    // number of the next record
	upto uint64    // up to where the records may be read as the scanner's window has them
	end  uint64    // those before it that are still to come are in file, whose size the scanner was told since they were there
	file *file
	in   vfs.File
	scan scanner
}

// NewReader returns a Reader of the records from number on. It must be closed.
func (l *Log) NewReader(number uint64) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if f, _ := span(l.files, number); number == 0 || number > l.writer.last+1 || number <= l.writer.last && f == nil {
		return nil, ErrGone
	}
	r := &Reader{log: l, pos: &position{number}, next: number}
	l.readers[r.pos] = struct{}{}
	return r, nil
}

// span returns the one of some files, which are in order, that has a record, and the number of the first record behind it that is in another
// one, 0 for none. The file is nil if each begins behind the record.
func span(files []*file, number uint64) (of *file, behind uint64) {
	for _, f := range slices.Backward(files) {
		if f.first <= number {
			return f, behind
		}
		behind = f.first
	}
	return nil, 0
}

// Next returns the next record, when there is one; the batch is the Reader's, until the next call.
// It waits until one is on stable storage. Errors: ErrGone, that of ctx, and that of the log when it
// is closed or has failed and there are no more.
//
// It takes the lock of the log once for each part of a file that it reads, not for each record: commits take that lock, too.
func (r *Reader) Next(ctx context.Context) (number uint64, batch []byte, err error) {
	if err := r.wait(ctx); err != nil {
		return 0, nil, err
	}
	for {
		if r.next >= r.end {
			if err := r.position(); err != nil {
				return 0, nil, err
			}
		}
		reads := r.scan.reads
		batch, err := r.scan.record()
		// What was in memory was the file's when it was read.
		if (r.scan.reads != reads || err != nil || batch == nil) && !r.has(r.file) { // it may have been another file by then
			r.end, r.scan.buf = 0, r.scan.buf[:0]
			return 0, nil, ErrGone
		}
		if err != nil {
			return 0, nil, err
		}
		if batch == nil {
			return 0, nil, ErrGone
		}
		if number := r.scan.next - 1; number == r.next {
			r.next++
			return number, batch, nil
		}
	}
}

// wait returns when the next record is on stable storage.
func (r *Reader) wait(ctx context.Context) error {
	l := r.log
	for r.next > r.upto {
		l.mu.Lock()
		upto, err := l.syncer.synced, l.err
		if l.news == nil {
			l.news = make(chan struct{})
		}
		news := l.news
		l.mu.Unlock()
		if r.next <= upto {
			// What was read beyond the end is not what is there now.
			r.upto, r.scan.buf = upto, r.scan.buf[:0]
			break
		}
		if err != nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// position puts the scanner into the file of the next record, and says how many of the records that come are in it.
func (r *Reader) position() error {
	r.log.mu.Lock()
	r.pos.next = r.next
	f, behind := span(r.log.files, r.next)
	r.log.mu.Unlock()
	if f == nil {
		return ErrGone
	}
	if f != r.file {
		in, err := r.log.opts.FS.Open(f.path)
		if !r.has(f) {
			err = errors.Join(ErrGone, err)
		}
		if err != nil {
			if in != nil {
				err = errors.Join(err, in.Close())
			}
			return err
		}
		r.leave()
		r.file, r.in = f, in
		r.scan = scanner{in: in, salt: f.salt, at: f.begin, next: f.first, buf: r.scan.buf[:0]}
	}
	info, err := r.in.Stat()
	if err != nil {
		return err
	}
	r.scan.size, r.end = info.Size(), r.upto+1
	if behind > 0 {
		r.end = min(r.end, behind)
	}
	return nil
}

// has says whether the log still has a file.
func (r *Reader) has(f *file) bool {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return slices.Contains(r.log.files, f)
}

func (r *Reader) leave() {
	if r.in != nil {
		_ = r.in.Close() // it was read only
		r.in = nil
	}
}

// Close lets go of the files.
func (r *Reader) Close() error {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	delete(r.log.readers, r.pos)
	r.leave()
	return nil
}
