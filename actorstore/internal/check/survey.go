package check

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// A Key is what the rows of one key of an actor are, or a run of rows without a key.
type Key struct {
	Key   []byte
	Stray bool         // rows that belong to no key: Key is the first one's, physical
	Rows  int          // how many rows there are
	Fault string       // the first thing that is wrong with them, "" if nothing is
	Shape layout.Shape // of the rows before the fault
	base  []byte       // what the rows begin with, if they belong to a key
}

// Survey groups the rows of an actor, given in ascending order, by their key, and goes on
// after damage. It yields each key when all its rows were there, and each run of rows that
// belong to no key. The first error of rows comes with a nil Key and ends the sequence.
func Survey(p *layout.Prefix, rows iter.Seq2[kv.Entry, error]) iter.Seq2[*Key, error] {
	return func(yield func(*Key, error) bool) {
		var k *Key
		for e, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			if k == nil || !k.has(p, e.Key) {
				if k != nil && !yield(k.end(), nil) {
					return
				}
				k = newKey(p, e.Key)
			}
			k.add(e)
		}
		if k != nil {
			yield(k.end(), nil)
		}
	}
}

// newKey returns the key to which a row with this key belongs.
func newKey(p *layout.Prefix, physical []byte) *Key {
	key, n, err := p.ParseBase(nil, physical)
	if err != nil {
		return &Key{Key: bytes.Clone(physical), Stray: true, Fault: "its key wraps no key of an actor"}
	}
	return &Key{Key: key, base: bytes.Clone(physical[:n])}
}

// has reports whether a row that comes behind those of k belongs to them.
func (k *Key) has(p *layout.Prefix, physical []byte) bool {
	if !k.Stray {
		return bytes.HasPrefix(physical, k.base)
	}
	_, _, err := p.ParseBase(nil, physical)
	return err != nil
}

// add takes the next row.
func (k *Key) add(e kv.Entry) {
	k.Rows++
	if k.Fault != "" {
		return // what follows from it is not worth telling
	}
	c, err := layout.ParseColumn(e.Key[len(k.base):])
	if err != nil {
		k.Fault = fmt.Sprintf("row %x is neither DATA nor METADATA: %v", e.Key[len(k.base):], err)
		return
	}
	switch err = k.Shape.Add(c, e.Value); {
	case err != nil && c.Metadata:
		k.Fault = "METADATA: " + err.Error()
	case err != nil:
		k.Fault = err.Error()
	}
}

// end returns k, all rows of which were there.
func (k *Key) end() *Key {
	if err := k.Shape.End(); err != nil && k.Fault == "" {
		k.Fault = err.Error()
	}
	return k
}
