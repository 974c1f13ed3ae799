package filecheck

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// file checks a main file, and other is its journal, or a journal or a log, and other is
// the main file.
func (c *Checker) file(f, other *keyedFile) error {
	switch {
	case !f.has:
		return c.unsized(f)
	case f.broken == errRows:
		return nil
	case f.broken != nil:
		var newer *actorstore.FormatError
		if errors.As(f.broken, &newer) {
			return c.find(Fault, f.appendMeta(nil), "it is of version %d, known are versions up to %d", newer.Found, newer.Known)
		}
		return c.find(Fault, f.appendMeta(nil), "it can't be read: %v", f.broken)
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
func (c *Checker) journal(f, main *keyedFile) error {
	hot, err := c.hot(main, f)
	switch {
	case err != nil:
		return err
	case hot:
		if err := c.find(Unfinished, f.appendMeta(nil),
			"a transaction was not finished; the next owner rolls it back"); err != nil {
			return err
		}
	case f.size > 0:
		return c.find(Harmless, f.appendMeta(nil), "the journal is over; the next owner removes it")
	}
	return c.chunks(f, true)
}

// log checks a log that has a size record.
func (c *Checker) log(f, main *keyedFile) error {
	if main.broken == nil && main.size == 0 && f.size > 0 {
		return c.find(Harmless, f.appendMeta(nil), "the log is dead, there is no database; the next owner removes it")
	}
	return c.chunks(f, true)
}

// hot says whether the journal is to be rolled back, by the rule by which opening does.
func (c *Checker) hot(main, journal *keyedFile) (bool, error) {
	if main.broken != nil || journal.broken != nil || main.size == 0 || journal.size == 0 {
		return false, nil
	}
	start := make([]byte, min(int64(len(format.JournalOver)), journal.size))
	magic := make([]byte, min(int64(len(format.Magic)), main.size))
	if err := errors.Join(c.read(journal, start, 0), c.read(main, magic, 0)); err != nil {
		return false, err
	}
	return !format.IsJournalOver(start, bytes.Equal(magic, format.Magic)), nil
}

// unread reports a file of a kind that nothing here reads, if it is there.
func (c *Checker) unread(f *keyedFile) error {
	if err := c.load(f); err != nil {
		return err
	}
	if _, n, err := c.count(f, 0); err != nil || n == 0 && !f.has {
		return err
	}
	return c.find(Fault, f.appendMeta(nil), "there is a %s file, which nothing here reads or writes", f.tag)
}

// unsized reports the chunks of a file without a size record, if there are any. Of a
// main file the record is stored first, so it is lost.
func (c *Checker) unsized(f *keyedFile) error {
	first, n, err := c.count(f, 0)
	switch {
	case err != nil || n == 0:
		return err
	case f.tag == actorstore.FileMain && !f.old:
		return c.find(Fault, first, "chunks without a size record%s: the record is lost, and the database doesn't open", inAll(n))
	}
	return c.find(Harmless, first, "chunks without a size record%s: a file that was never complete; the next owner removes them", inAll(n))
}

// count returns how many chunks there are under the keys of f, from number from on, and the
// key of the first one.
func (c *Checker) count(f *keyedFile, from uint32) (first []byte, n int64, err error) {
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
func (c *Checker) chunks(f *keyedFile, whole bool) error {
	h := &holes{c: c, f: f, judge: whole}
	if err := h.begin(); err != nil {
		return err
	}
	count := chunked.Count(f.size)
	next, err := c.walk(f, 0, count, c.gap(f, h))
	if err == nil {
		err = c.gap(f, h)(next, count)
	}
	if err == nil {
		err = h.finish()
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
func (c *Checker) gap(f *keyedFile, h *holes) func(from, to int64) error {
	if f.moved == nil {
		return h.add
	}
	return func(from, to int64) error {
		if from >= to {
			return nil
		}
		next, err := c.walk(f.moved, from, to, h.add)
		if err != nil {
			return err
		}
		return h.add(next, to)
	}
}

// walk goes through the chunks [from, to) that are stored under the keys of f, calls
// gap with those in between that are not, and returns the number after the last one.
func (c *Checker) walk(f *keyedFile, from, to int64, gap func(from, to int64) error) (next int64, err error) {
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
			if err := c.find(Fault, e.Key, "it holds %d bytes, a chunk has at most %d", e.Size, chunked.Size); err != nil {
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
func (c *Checker) beyond(f *keyedFile, size int64) error {
	if chunked.Count(size) >= chunked.MaxChunks {
		return nil
	}
	first, n, err := c.count(f, uint32(chunked.Count(size)))
	if err != nil || n == 0 {
		return err
	}
	return c.find(Harmless, first, "it lies beyond the size of %d bytes%s; the next owner removes it", size, alike(n-1))
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
