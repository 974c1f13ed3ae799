package guest

import (
	"iter"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// ErrNotFound: there is no such key. It is the only error of KV.Get for that.
var ErrNotFound = &Error{"not_found", "There is no such key."}

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

// Delete removes key; a missing one is no error.
func (KV) Delete(key []byte) error { return call(kvDelete, key, nil) }

// DeleteRange removes the keys in [start, end); an empty end means all from start on.
func (KV) DeleteRange(start, end []byte) error {
	return call(kvDeleteRange, abi.Span{Start: start, End: end}, nil)
}

// ListOptions select entries; the zero value means all of them, in ascending order.
type ListOptions struct {
	// Start and End select the keys in [Start, End); empty means no bound.
	Start, End []byte
	// Prefix selects, of those, the keys that begin with it.
	Prefix []byte
	// Limit is the largest number of entries; 0 means all.
	Limit int
	// Reverse yields the entries in descending order.
	Reverse bool
	// KeysOnly leaves Entry.Value empty.
	KeysOnly bool
}

// An Entry is one key with its value.
type Entry struct{ Key, Value []byte }

// List yields the entries that opts select, and fetches them page by page: what the turn
// writes meanwhile may be seen or not. An error is yielded once, with a zero Entry.
func (KV) List(opts ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			var page abi.Listed
			if err := call(kvList, abi.List{
				Prefix: opts.Prefix, Start: opts.Start, End: opts.End, Reverse: opts.Reverse, Limit: opts.Limit, KeysOnly: opts.KeysOnly,
			}, &page); err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(Entry{e.Key, e.Value}, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			opts.next(page.Entries)
		}
	}
}

// next has opts select what comes behind a page, which isn't empty.
func (o *ListOptions) next(page []abi.Entry) {
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
