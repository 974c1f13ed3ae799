package keys

import (
	"bytes"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// A Case is one key type of a Walk, with what is done with its entries. On
// returns one.
type Case interface {
	// begin is called once, before the first row.
	begin(reverse bool)
	// take offers a row.
	take(e kv.Entry) (verdict, error)
	// more offers the next row after take returned opened, until it isn't taken;
	// then, or at the end of the range, comes close.
	more(e kv.Entry) (bool, error)
	close() error
	// chunks says whether values are chunked.
	chunks() bool
}

// A verdict is what a Case says of a row.
type verdict uint8

const (
	other  verdict = iota // the key is of another type
	taken                 // the row was an item
	opened                // the row is the first of an item's
)

// On calls fn for every key of type K, which is known by what fn takes. An error of
// fn ends the Walk, which returns it.
func On[K Key[V], V any, P Pointer[K]](fn func(key K, value V) error) Case {
	return newTyped[K, V, P](func(_ []byte, k K, v V) error { return fn(k, v) })
}

// A typed is the Case of a type whose entries go to fn, with the last row of each.
type typed[K Key[V], V any, P Pointer[K]] struct {
	fn    func(row []byte, k K, v V) error
	parts bool // the codec is a chunker
	e     Elements
	key   K
	// Of a chunked value whose pieces are being read: its key, and its last row.
	base, row []byte
	join      joiner
}

func newTyped[K Key[V], V any, P Pointer[K]](fn func(row []byte, k K, v V) error) *typed[K, V, P] {
	c := &typed[K, V, P]{fn: fn}
	_, c.parts = c.key.Value().(chunker)
	return c
}

func (c *typed[K, V, P]) begin(reverse bool) { c.join.reverse = reverse }
func (c *typed[K, V, P]) chunks() bool       { return c.parts }

func (c *typed[K, V, P]) take(e kv.Entry) (verdict, error) {
	c.key = *new(K) // what the item before holds must not be overwritten
	ok, err := unpackKey(&c.e, P(&c.key), e.Key)
	switch {
	case err != nil:
		return other, c.failed(e.Key, err)
	case !ok || (len(c.e.buf) > 0) != c.parts:
		return other, nil
	case c.parts:
		return c.open(e)
	}
	v, err := c.key.Value().Decode(e.Value)
	if err != nil {
		return other, c.failed(e.Key, err)
	}
	return taken, c.fn(e.Key, c.key, v)
}

// open takes the first piece of a chunked value.
func (c *typed[K, V, P]) open(e kv.Entry) (verdict, error) {
	i, rest, err := tuple.NextInt(c.e.buf)
	if err != nil || len(rest) > 0 {
		return other, nil
	}
	c.base = append(c.base[:0], e.Key[:len(e.Key)-len(c.e.buf)]...)
	c.row = append(c.row[:0], e.Key...)
	c.join.reset()
	if err := c.join.add(i, e.Value); err != nil {
		return other, c.failed(c.base, err)
	}
	return opened, nil
}

func (c *typed[K, V, P]) more(e kv.Entry) (bool, error) {
	index, ok := bytes.CutPrefix(e.Key, c.base)
	if !ok {
		return false, nil
	}
	i, rest, err := tuple.NextInt(index)
	if err != nil || len(rest) > 0 {
		return false, nil
	}
	c.row = append(c.row[:0], e.Key...)
	if err := c.join.add(i, e.Value); err != nil {
		return false, c.failed(c.base, err)
	}
	return true, nil
}

func (c *typed[K, V, P]) close() error {
	if err := c.join.end(); err != nil {
		return c.failed(c.base, err)
	}
	v, err := c.key.Value().Decode(c.join.value)
	if err != nil {
		return c.failed(c.base, err)
	}
	return c.fn(c.row, c.key, v)
}

func (c *typed[K, V, P]) failed(key []byte, err error) error { return keyError[K](opScan, key, err) }
