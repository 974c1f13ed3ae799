package batch

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// What Split, Limits.Check and Limits.CheckSubs refuse, always as a *LimitError
// that wraps one of these, and always before anything is written.
var (
	// ErrKeyTooLong: a key, or an end of a range, is over Limits.KeySize.
	ErrKeyTooLong = errkind.New("batch: key too long", errkind.ErrTooLarge)
	// ErrValueTooLarge: a value is over Limits.ValueSize.
	ErrValueTooLarge = errkind.New("batch: value too large", errkind.ErrTooLarge)
	// ErrTooLarge: what must land together doesn't fit together: one entry, the
	// final group, or an atomic batch of too many sub-batches.
	ErrTooLarge = errkind.New("batch: too large", errkind.ErrTooLarge)
)

// ErrSettled is returned by Seal and EnlistAgain for a batch that was settled already: it has
// been committed or given up, and must be Reset before it is used again.
var ErrSettled = errors.New("batch: already settled")

// ErrAborted is the reason that participants get when a batch was given up
// without one: by Abort(nil), or by Reset before it was settled.
var ErrAborted = errors.New("batch: given up")

// An OrderedError is the failure of an Ordered batch of which a part is stored.
// When nothing is stored the error is Err by itself.
type OrderedError struct {
	Landed int // how many sub-batches are stored: the first ones
	Total  int // how many there were
	Err    error
}

// Error names both numbers and the reason.
func (e *OrderedError) Error() string {
	return fmt.Sprintf("batch: %d of %d sub-batches landed: %v", e.Landed, e.Total, e.Err)
}

// Unwrap returns Err.
func (e *OrderedError) Unwrap() error { return e.Err }

// A LimitError says which limit was exceeded, by what, and by how much.
type LimitError struct {
	Err   error  // ErrKeyTooLong, ErrValueTooLarge or ErrTooLarge
	Key   []byte // the key, or the first of the group; nil when it is about the whole batch
	What  string // what was counted, as "bytes of the value"
	Size  int    // how much of it there is
	Limit int    // how much of it is allowed
}

// shownKey is how much of a key an error message quotes.
const shownKey = 64

// Error names the key (its beginning, if it is long), the size and the limit.
func (e *LimitError) Error() string {
	what := fmt.Sprintf("%d %s, limit %d", e.Size, e.What, e.Limit)
	switch {
	case e.Key == nil:
		return fmt.Sprintf("%v: %s", e.Err, what)
	case len(e.Key) > shownKey:
		return fmt.Sprintf("%v: key %q… (%d bytes): %s", e.Err, e.Key[:shownKey], len(e.Key), what)
	}
	return fmt.Sprintf("%v: key %q: %s", e.Err, e.Key, what)
}

// Unwrap returns e.Err.
func (e *LimitError) Unwrap() error { return e.Err }

// limitError copies key, since the error may outlive the batch whose arena holds
// it, and keeps an empty key apart from none.
func limitError(err error, key []byte, what string, size, limit int) *LimitError {
	return &LimitError{Err: err, Key: append([]byte{}, key...), What: what, Size: size, Limit: limit}
}
