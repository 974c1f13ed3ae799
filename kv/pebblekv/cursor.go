package pebblekv

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
)

// maxSteps is how many steps may lead to the next key: a page has a row of metadata behind
// it. More would take longer than to look for it from above.
const maxSteps = 3

// A cursor reads keys one by one through one iterator over everything. It is used by one
// goroutine at a time.
//
// SQLite reads a table page by page, mostly in the order of their numbers. A key with the
// number after that of the last one is looked for where the iterator is, which takes a third
// of the time of looking for it from above.
type cursor struct {
	it   *pebble.Iterator
	last []byte // that was asked for
	at   bool   // the iterator is at last, and may go on from there
}

// seek appends the value of key, as it finds it.
func (d *DB) seek(c *cursor, key, dst []byte) ([]byte, error) {
	if len(key) == 0 || isOwn(key) {
		return dst, kv.ErrNotFound // no store has the empty one, and Pebble's debug builds trip over it
	}
	if !c.find(key) {
		if err := d.verdict(c.it.Error()); err != nil {
			return dst, err
		}
		return dst, kv.ErrNotFound
	}
	v, err := c.it.ValueAndErr()
	if err := d.verdict(err); err != nil {
		return dst, err
	}
	return append(dst, v...), nil
}

// find moves the iterator to key, and reports whether it is there.
func (c *cursor) find(key []byte) bool {
	ok, next := false, follows(c.last, key)
	switch {
	case next && c.at:
		ok = c.advance(key)
	case next:
		ok = c.it.SeekGE(key)
	default:
		// The prefix of a key is all of it, so filters keep this from looking for a
		// missing key in vain. But it can't go on from there.
		ok = c.it.SeekPrefixGE(key)
	}
	ok = ok && bytes.Equal(c.it.Key(), key)
	c.last, c.at = append(c.last[:0], key...), ok && next
	return ok
}

// advance moves the iterator on to key, or behind it if it isn't there.
func (c *cursor) advance(key []byte) bool {
	for range maxSteps {
		if ok := c.it.NextPrefix(); !ok || bytes.Compare(c.it.Key(), key) >= 0 {
			return ok
		}
	}
	return c.it.SeekGE(key)
}

// follows reports whether key is last but for one byte, which is one more. (The number of a
// page ends a tuple within a tuple, so that bytes come after it. When a byte of it is 0 the
// key is longer than the others; then it is looked for from above.)
func follows(last, key []byte) bool {
	if len(last) != len(key) {
		return false
	}
	i := 0
	for i < len(key) && key[i] == last[i] {
		i++
	}
	return i < len(key) && last[i] != 0xff && key[i] == last[i]+1 && bytes.Equal(key[i+1:], last[i+1:])
}
