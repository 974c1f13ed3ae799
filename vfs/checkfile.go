package vfs

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// load reads the size record of f.
func (c *checker) load(f *keyedFile) error {
	c.key = f.appendMeta(c.key[:0])
	record, err := c.r.Get(c.ctx, c.key, nil)
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		return nil
	case errors.Is(err, actorstore.ErrCorrupt):
		c.sound, f.has, f.broken = false, true, errRows
		return nil
	case err != nil:
		return err
	}
	f.has = true
	f.size, f.broken = chunked.ParseMeta(record)
	return nil
}

// errRows: the rows of a size record are damaged, which is not for Check to tell.
var errRows = errors.New("vfs: damaged rows")

// read fills b, which lies within one chunk of f, with the bytes at off, and with
// zeros what isn't there. What is damaged is not there either.
func (c *checker) read(f *keyedFile, b []byte, off int64) error {
	var chunk []byte
	for _, g := range [...]*keyedFile{f.moved, f} {
		if g == nil {
			continue
		}
		c.key = g.appendChunk(c.key[:0], uint32(off/chunked.Size))
		found, err := c.r.Page(c.ctx, c.key, c.chunk[:0])
		if err == nil {
			chunk = found
			break
		}
		if !errors.Is(err, actorstore.ErrNotFound) && !errors.Is(err, actorstore.ErrCorrupt) {
			return err
		}
	}
	clear(b[copy(b, chunk[min(int(off%chunked.Size), len(chunk)):]):])
	return nil
}

// file checks a main file, and other is its journal, or a journal or a log, and other is
// the main file.
func (c *checker) file(f, other *keyedFile) error {
	switch {
	case !f.has:
		return c.unsized(f)
	case f.broken == errRows:
		return nil
	case f.broken != nil:
		var newer *actorstore.FormatError
		if errors.As(f.broken, &newer) {
			return c.find(fault, f.appendMeta(nil), "it is of version %d, known are versions up to %d", newer.Found, newer.Known)
		}
		return c.find(fault, f.appendMeta(nil), "it can't be read: %v", f.broken)
	case f.tag == actorstore.FileJournal:
		return c.journal(f, other)
	case f.tag == actorstore.FileWAL:
		return c.log(f, other)
	}
	hot, err := c.hot(f, other)
	if err != nil {
		return err
	}
	// Before a transaction is rolled back, what it removed is missing, and what a
	// checkpoint will copy may be.
	return c.chunks(f, !hot && !c.logged)
}

// journal checks a journal that has a size record. What is in one that is over is of
// no importance.
func (c *checker) journal(f, main *keyedFile) error {
	hot, err := c.hot(main, f)
	switch {
	case err != nil:
		return err
	case hot:
		if err := c.find(unfinished, f.appendMeta(nil),
			"a transaction was not finished; the next owner rolls it back"); err != nil {
			return err
		}
	case f.size > 0:
		return c.find(harmless, f.appendMeta(nil), "the journal is over; the next owner removes it")
	}
	return c.chunks(f, true)
}

// log checks a log that has a size record.
func (c *checker) log(f, main *keyedFile) error {
	if main.broken == nil && main.size == 0 && f.size > 0 {
		return c.find(harmless, f.appendMeta(nil), "the log is dead, there is no database; the next owner removes it")
	}
	return c.chunks(f, true)
}

// hot says whether the journal is to be rolled back, by the rule of database.load.
func (c *checker) hot(main, journal *keyedFile) (bool, error) {
	if main.broken != nil || journal.broken != nil || main.size == 0 || journal.size == 0 {
		return false, nil
	}
	start := make([]byte, min(int64(len(zeroHeader)), journal.size))
	if err := c.read(journal, start, 0); err != nil || start[0] != 0 {
		return err == nil, err
	}
	magic := make([]byte, min(int64(len(headerMagic)), main.size))
	if err := c.read(main, magic, 0); err != nil {
		return false, err
	}
	return !bytes.Equal(magic, headerMagic) && !bytes.HasPrefix(zeroHeader, start), nil
}

// unread reports a file of a kind that nothing here reads, if it is there.
func (c *checker) unread(f *keyedFile) error {
	if err := c.load(f); err != nil {
		return err
	}
	if _, n, err := c.count(f, 0); err != nil || n == 0 && !f.has {
		return err
	}
	return c.find(fault, f.appendMeta(nil), "there is a %s file, which nothing here reads or writes", f.tag)
}

// unsized reports the chunks of a file without a size record, if there are any. Of a
// main file the record is stored first, so it is lost.
func (c *checker) unsized(f *keyedFile) error {
	first, n, err := c.count(f, 0)
	switch {
	case err != nil || n == 0:
		return err
	case f.tag == actorstore.FileMain && !f.old:
		return c.find(fault, first, "chunks without a size record%s: the record is lost, and the database doesn't open", inAll(n))
	}
	return c.find(harmless, first, "chunks without a size record%s: a file that was never complete; the next owner removes them", inAll(n))
}

// count returns how many chunks there are under the keys of f, from number from on, and the
// key of the first one.
func (c *checker) count(f *keyedFile, from uint32) (first []byte, n int64, err error) {
	start, end := f.chunks(from)
	for e, err := range c.survey(start, end) {
		if err != nil {
			return nil, 0, err
		}
		if _, ok := f.number(e.Key); !ok {
			continue
		}
		if n++; n == 1 {
			first = append(first, e.Key...)
		}
	}
	return first, n, nil
}

// chunks checks the chunks of a file with a size record and, unless whole is false,
// that none is missing.
func (c *checker) chunks(f *keyedFile, whole bool) error {
	if err := c.holes.reset(c, f, whole); err != nil {
		return err
	}
	count := chunked.Count(f.size)
	next, err := c.walk(f, 0, count, c.gap(f))
	if err == nil {
		err = c.gap(f)(next, count)
	}
	if err == nil {
		err = c.holes.finish()
	}
	if err == nil {
		err = c.beyond(f, f.size)
	}
	if err == nil && f.moved != nil {
		err = c.beyond(f.moved, f.size)
	}
	return err
}

// gap returns what takes the chunks [from, to) that f doesn't have under its keys: they
// may have been moved.
func (c *checker) gap(f *keyedFile) func(from, to int64) error {
	if f.moved == nil {
		return c.holes.add
	}
	return func(from, to int64) error {
		if from >= to {
			return nil
		}
		next, err := c.walk(f.moved, from, to, c.holes.add)
		if err != nil {
			return err
		}
		return c.holes.add(next, to)
	}
}

// walk goes through the chunks [from, to) that are stored under the keys of f, calls
// gap with those in between that are not, and returns the number after the last one.
func (c *checker) walk(f *keyedFile, from, to int64, gap func(from, to int64) error) (next int64, err error) {
	next = from
	if from >= to {
		return next, nil
	}
	start, end := f.chunks(uint32(from))
	for e, err := range c.survey(start, end) {
		if err != nil {
			return next, err
		}
		i, ok := f.number(e.Key)
		if !ok {
			continue
		}
		if int64(i) >= to {
			break
		}
		if e.Size > chunked.Size {
			if err := c.find(fault, e.Key, "it holds %d bytes, a chunk has at most %d", e.Size, chunked.Size); err != nil {
				return next, err
			}
		}
		if err := gap(next, int64(i)); err != nil {
			return next, err
		}
		next = int64(i) + 1
	}
	return next, nil
}

// beyond reports the chunks under the keys of f that lie beyond the size.
func (c *checker) beyond(f *keyedFile, size int64) error {
	if chunked.Count(size) >= chunked.MaxChunks {
		return nil
	}
	first, n, err := c.count(f, uint32(chunked.Count(size)))
	if err != nil || n == 0 {
		return err
	}
	return c.find(harmless, first, "it lies beyond the size of %d bytes%s; the next owner removes it", size, alike(n-1))
}

// alike says how many more chunks are as the one that is told.
func alike(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", like %d more", n)
}

// inAll says how many there are, if that is more than one.
func inAll(n int64) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d in all", n)
}
