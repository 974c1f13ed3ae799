package guest

import (
	"iter"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// ErrNotFound: the key doesn't exist. KV.Get returns exactly this error for that.
var ErrNotFound = &Error{Code: "not_found", Message: "There is no such key."}

// KV is the actor's user keys, as a turn sees them: with its own writes.
type KV struct{}

// KV returns the actor's user keys.
func (c *Context) KV() KV { return KV{} }

// Get returns the value of key. A missing key is ErrNotFound.
func (KV) Get(key []byte) ([]byte, error) {
	var r Raw
	if err := call(kvGet, key, &r); err != nil {
		return nil, err
	}
	if len(r) == 0 {
		return nil, ErrNotFound
	}
	var value []byte
	return value, decodeInto(r, &value)
}

// decodeInto decodes a value of the ABI.
func decodeInto(r Raw, v any) error { return abi.Unmarshal(r, v) }

// Put stores value under key.
func (KV) Put(key, value []byte) error {
	return call(kvPut, abi.Entry{Key: key, Value: value}, nil)
}

// Delete removes key; a missing key isn't an error.
func (KV) Delete(key []byte) error { return call(kvDelete, key, nil) }

// DeleteRange removes the keys in [start, end); an empty end means all from start on.
func (KV) DeleteRange(start, end []byte) error {
	return call(kvDeleteRange, abi.Span{Start: start, End: end}, nil)
}

// ListOptions select entries; the zero value means all of them, in ascending order. List doesn't
// change the bytes.
type ListOptions struct {
	// Prefix selects the keys that begin with it, and Start and End, of those, the keys in
	// [Start, End); empty means no bound.
	Prefix []byte `cbor:"prefix,omitempty"`
	Start  []byte `cbor:"start,omitempty"`
	End    []byte `cbor:"end,omitempty"`
	// Reverse yields the entries in descending order.
	Reverse bool `cbor:"reverse,omitempty"`
	// Limit is the largest number of entries; 0 means all.
	Limit int `cbor:"limit,omitempty"`
	// KeysOnly leaves Entry.Value empty.
	KeysOnly bool `cbor:"keys_only,omitempty"`
}

// An Entry is one key with its value, whose bytes belong to the caller.
type Entry struct {
	_     struct{} `cbor:",toarray"`
	Key   []byte
	Value []byte
}

// List yields the entries that opts select, and fetches them page by page: what the turn
// writes meanwhile may be seen or not. An error is yielded once, with a zero Entry.
func (KV) List(opts ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			var page abi.Listed
			if err := call(kvList, abi.ListOptions(opts), &page); err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(Entry{Key: e.Key, Value: e.Value}, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			next(&opts, page.Entries)
		}
	}
}

// next has o select what comes behind a page, which isn't empty.
func next(o *ListOptions, page []abi.Entry) {
	last := page[len(page)-1].Key
	if o.Reverse {
		o.End = last
	} else {
		o.Start = append(append([]byte{}, last...), 0)
	}
	if o.Limit > 0 {
		o.Limit -= len(page)
	}
}
