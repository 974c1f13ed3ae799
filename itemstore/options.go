package itemstore

import (
	"io"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
)

// Options are the options of Open. The zero value is what nil means.
type Options struct {
	// Transactions are the options of the transactions. The commits of an engine that is
	// shared with actors are theirs too.
	Transactions txn.Options
	// Now is the clock for times, and for when items end; nil means time.Now.
	Now func() time.Time
	// TombstoneAge is for how long Sync knows of a deletion; a token that is older starts
	// over. 0 means 60 days.
	TombstoneAge time.Duration
	// Random gives the bytes of IDs; nil means crypto/rand.Reader.
	Random io.Reader
	// Logger is told of what has no caller; nil means slog.Default().
	Logger *slog.Logger
	// Metrics receives what is counted; nil means nothing is.
	Metrics metrics.Sink
}

// defaultTombstoneAge is that of StatelyDB: https://docs.stately.cloud/
const defaultTombstoneAge = 60 * 24 * time.Hour

// PutOptions are the options of Put and PutAll. The zero value is what nil means.
type PutOptions struct {
	// MustNotExist makes an item that has one of the paths ErrExists.
	MustNotExist bool
	// KeepTimes takes the times of creation and modification from the item's metadata
	// where they aren't zero, as when items come from another store.
	KeepTimes bool
}

// ListOptions say which items a list has. The zero value is what nil means: all that lie
// at the prefix.
type ListOptions struct {
	// Reverse goes from the last path to the first.
	Reverse bool `json:",omitempty"`
	// Limit is the largest number of items, of a page for Page; 0 doesn't bound it.
	Limit int `json:",omitempty"`
	// Types are the names of the types that are wanted; none means all.
	Types []string `json:",omitempty"`
	// Filters are conditions in CEL for the items of a type, by its name, about this; see docs/items.md. An
	// item that a condition doesn't fit, because a field has another type, isn't wanted.
	Filters map[string]string `json:",omitempty"`
	// At most one of AtLeast and GreaterThan, and one of AtMost and LessThan, bound the
	// paths, whatever the direction. They begin with the prefix. Paths are compared by their segments:
	// the namespace, then the ID, and a path is less than those below it.
	AtLeast, GreaterThan, AtMost, LessThan Path `json:",omitempty"`
	// Segment is a part of the store, for a list of all items; see Store.Segments.
	Segment *Segment `json:",omitempty"`
}

// NextOptions are the options of NextPage. The zero value is what nil means.
type NextOptions struct {
	// Backward returns the page before the one that the token is behind.
	Backward bool
}

// A Segment is a part of the items of a store, for ListOptions: those whose primary paths lie in [Start, End),
// as this package packs them. It can be stored, and sent to another process.
type Segment struct{ Start, End []byte }

// pageBytes is how much a page without a limit holds at least, if there is so much, in
// bytes as items are stored.
const pageBytes = 1 << 20

// pageRows is after how many rows a page ends, if the next one isn't of the list: a filter that few items pass
// must not read until the transaction is too old.
const pageRows = 5000
