package vfs

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// firstTransaction bounds the time in which the first transaction of a file is
// stored: chunks without a size record that were written over a longer one are more
// than a crash leaves.
const firstTransaction = time.Hour

// load reads the size record of f, and says whether it has one.
func (c *checker) load(f *keyedFile) (has bool, err error) {
	c.key = f.appendMeta(c.key[:0])
	record, err := c.r.Get(c.ctx, c.key, nil)
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		return false, nil
	case errors.Is(err, actorstore.ErrCorrupt):
		c.sound, f.broken = false, err // its rows are damaged, and not ours to tell
		return true, nil
	case err != nil:
		return false, err
	}
	f.size, f.broken = parseMeta(record)
	return true, nil
}

// read fills b, which lies within one chunk of f, with the bytes at off, and with
// zeros what isn't there. What is damaged is not there either.
func (c *checker) read(f *keyedFile, b []byte, off int64) error {
	c.key = f.appendChunk(c.key[:0], uint32(off/chunkSize))
	chunk, err := c.r.Page(c.ctx, c.key, c.chunk[:0])
	switch {
	case errors.Is(err, actorstore.ErrNotFound), errors.Is(err, actorstore.ErrCorrupt):
		chunk = nil
	case err != nil:
		return err
	}
	clear(b[copy(b, chunk[min(int(off%chunkSize), len(chunk)):]):])
	return nil
}

// readable says whether the size record of f can be read, and reports it if not.
func (c *checker) readable(f *keyedFile) (bool, error) {
	if f.broken == nil {
		return true, nil
	}
	key := f.appendMeta(nil)
	var newer *actorstore.FormatError
	if errors.As(f.broken, &newer) {
		return false, c.find(fault, key, "it is of version %d, known are versions up to %d", newer.Found, newer.Known)
	}
	if _, err := c.r.Get(c.ctx, key, nil); errors.Is(err, actorstore.ErrCorrupt) {
		return false, nil
	}
	return false, c.find(fault, key, "it can't be read: %v", f.broken)
}

// file checks one file.
func (c *checker) file(f *keyedFile) error {
	has, err := c.load(f)
	if err != nil {
		return err
	}
	if ok, err := c.readable(f); !ok {
		return err
	}
	switch f.tag {
	case actorstore.FileMain:
		if !has {
			return c.unsized(f)
		}
		return c.main(f)
	case actorstore.FileJournal:
		if !has {
			return c.unsized(f)
		}
		return c.journal(f)
	}
	return c.unread(f, has)
}

// main checks a main file that has a size record.
func (c *checker) main(f *keyedFile) error {
	j := f.sibling(actorstore.FileJournal)
	if _, err := c.load(j); err != nil {
		return err
	}
	hot, err := c.hot(f, j)
	if err != nil {
		return err
	}
	// Before a transaction is rolled back, what it removed is missing.
	return c.chunks(f, !hot)
}

// journal checks a journal that has a size record. What is in one that is over is of
// no importance.
func (c *checker) journal(f *keyedFile) error {
	m := f.sibling(actorstore.FileMain)
	if _, err := c.load(m); err != nil {
		return err
	}
	hot, err := c.hot(m, f)
	switch {
	case err != nil:
		return err
	case hot:
		if err := c.find(unfinished, f.appendMeta(nil),
			"a transaction was not finished; the next owner rolls it back"); err != nil {
			return err
		}
		return c.chunks(f, true)
	case f.size > 0:
		return c.find(harmless, f.appendMeta(nil), "the journal is over; the next owner removes it")
	}
	return c.chunks(f, true)
}

// hot says whether the journal j of the main file m is to be rolled back, by the rule
// of database.load.
func (c *checker) hot(m, j *keyedFile) (bool, error) {
	if m.broken != nil || j.broken != nil || m.size == 0 || j.size == 0 {
		return false, nil
	}
	var first [1]byte
	err := c.read(j, first[:], 0)
	return first[0] != 0, err
}

// unread reports a file of a kind that nothing here reads, if it is there.
func (c *checker) unread(f *keyedFile, has bool) error {
	start, end := f.chunks()
	for e, err := range c.survey(start, end) {
		if err != nil {
			return err
		}
		if _, ok := f.number(e.Key); ok {
			has = true
			break
		}
	}
	if !has {
		return nil
	}
	return c.find(fault, f.appendMeta(nil), "there is a %s file, which nothing here reads or writes", f.tag)
}

// unsized reports the chunks of a file without a size record, if there are any.
func (c *checker) unsized(f *keyedFile) error {
	start, end := f.chunks()
	var first []byte
	var from, to time.Time
	n := 0
	for e, err := range c.survey(start, end) {
		if err != nil {
			return err
		}
		if _, ok := f.number(e.Key); !ok {
			continue
		}
		if n++; n == 1 {
			first, from, to = append(first, e.Key...), e.Updated, e.Updated
		}
		if e.Updated.Before(from) {
			from = e.Updated
		}
		if e.Updated.After(to) {
			to = e.Updated
		}
	}
	if n == 0 {
		return nil
	}
	if f.tag == actorstore.FileMain && to.Sub(from) > firstTransaction {
		j := f.sibling(actorstore.FileJournal)
		if has, err := c.load(j); err != nil {
			return err
		} else if !has {
			return c.find(fault, first, "chunks without a size record%s, written over %v: the record is lost, and the next owner removes them",
				inAll(n), to.Sub(from).Round(time.Second))
		}
	}
	return c.find(harmless, first, "chunks without a size record%s: a file that was never complete; the next owner removes them", inAll(n))
}

// chunks checks the chunks of a file with a size record, and unless whole is false
// that none is missing.
func (c *checker) chunks(f *keyedFile, whole bool) error {
	start, end := f.chunks()
	count := chunkCount(f.size)
	next, beyond := int64(0), int64(0)
	var above uint32 // the first chunk beyond the size
	if err := c.holes.reset(c, f, whole); err != nil {
		return err
	}
	for e, err := range c.survey(start, end) {
		if err != nil {
			return err
		}
		i, ok := f.number(e.Key)
		switch {
		case !ok:
			continue
		case int64(i) >= count:
			if beyond++; beyond == 1 {
				above = i
			}
			continue
		case e.Size > chunkSize:
			if err := c.find(fault, e.Key, "it holds %d bytes, a chunk has at most %d", e.Size, chunkSize); err != nil {
				return err
			}
		}
		if err := c.holes.add(next, int64(i)); err != nil {
			return err
		}
		next = int64(i) + 1
	}
	if err := c.holes.add(next, count); err != nil {
		return err
	}
	if err := c.holes.finish(); err != nil || beyond == 0 {
		return err
	}
	return c.find(harmless, f.appendChunk(nil, above),
		"it lies beyond the size of %d bytes%s; the next owner removes it", f.size, alike(beyond-1))
}

// alike says how many more chunks are as the one that is told.
func alike(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", like %d more", n)
}

// inAll says how many there are, if that is more than one.
func inAll(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d in all", n)
}
