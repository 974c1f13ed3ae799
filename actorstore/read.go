package actorstore

import (
	"context"
	"iter"
	"time"
)

// A Reader reads one actor: an Actor its newest applied state, a Snapshot or a View
// the state that it pins. Readers are safe for concurrent use.
//
// Damage is ErrCorrupt, with the key in words.
type Reader interface {
	// Layout returns the layout of the actor's keys.
	Layout() Layout

	// Get appends the whole value of key, of whatever size, to dst and returns the
	// extended slice. A missing key is ErrNotFound; after an error dst is as it was.
	// It reads one range of the engine.
	Get(ctx context.Context, key, dst []byte) ([]byte, error)

	// Page is Get for values of 1 to 10,000 bytes, such as the pages of a
	// database: exactly one Get of the engine, and no allocation if dst has
	// room. An empty value is ErrNotFound, and of a larger one it appends the
	// first 10,000 bytes.
	Page(ctx context.Context, key, dst []byte) ([]byte, error)

	// List yields the entries that opts select, in the order of their keys, all of
	// one state: the one at the start of the iteration. It reads them lazily with
	// one Scan of the engine and cuts nothing off. An error is yielded once, with a
	// zero Entry, and ends the sequence.
	List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error]
}

// ListOptions select entries; the zero value means all of them, in ascending order.
// The slices must not change until the iteration ends.
type ListOptions struct {
	// Start and End select the keys in [Start, End); nil means no bound.
	Start, End []byte
	// Prefix selects, of those, the keys that begin with it.
	Prefix []byte
	// Limit is the largest number of entries; 0 means all.
	Limit int
	// Reverse yields the entries in descending order: with a Limit, the highest.
	Reverse bool
	// KeysOnly leaves Entry.Value nil. The rows are checked all the same.
	KeysOnly bool
}

// An Entry is one key with its value. The slices are valid until the next
// iteration: copy what is kept.
type Entry struct {
	Key, Value []byte
	Size       int       // bytes of the value, also with KeysOnly
	Updated    time.Time // when it was last written, to the millisecond
}
