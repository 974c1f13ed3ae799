package actorstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
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

// A space reads the rows of one actor from one state.
type space struct {
	src    kv.Reader
	store  *Store
	prefix layout.Prefix
}

// page reads DATA row 0.
func (s *space) page(ctx context.Context, key, dst []byte) ([]byte, error) {
	k := s.store.getBuf()
	k.b = layout.AppendData(s.prefix.AppendBase(k.b[:0], key), 0)
	out, err := s.src.Get(ctx, k.b, dst)
	s.store.putBuf(k)
	n := len(out) - len(dst)
	switch {
	case err == nil && n > 0 && n <= layout.RowSize:
		return out, nil
	case err == nil:
		return dst, corrupt(key, "DATA row 0 has %d bytes", n)
	}
	return dst, readError(key, err)
}

// readError says which key could not be read. That it is missing needs no words,
// and no memory.
func readError(key []byte, err error) error {
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNotFound
	}
	return fmt.Errorf("actorstore: read %s: %w", Describe(key), err)
}

// rows appends the range of the rows of key to b: all of its columns, those too
// that should not be there.
func (s *space) rows(b *buf, key []byte) kv.Range {
	b.b = s.prefix.AppendBase(b.b[:0], key)
	n := len(b.b)
	b.b = append(layout.AppendBelow(b.b), b.b[:n]...)
	b.b = layout.AppendAbove(b.b)
	return kv.Range{Start: b.b[: n+1 : n+1], End: b.b[n+1:]}
}

// get reads and checks all rows of key.
func (s *space) get(ctx context.Context, key, dst []byte) ([]byte, error) {
	k := s.store.getBuf()
	defer s.store.putBuf(k)
	r := s.rows(k, key)
	base := len(r.Start) - 1
	out, found := dst, false
	var sh layout.Shape
	for e, err := range s.src.Scan(ctx, r) {
		if err != nil {
			return dst, readError(key, err)
		}
		found = true
		c, err := layout.ParseColumn(e.Key[base:])
		if err == nil {
			err = sh.Add(c, e.Value)
		}
		if err != nil {
			return dst, corrupt(key, "%v", err)
		}
		if !c.Metadata {
			out = append(out, e.Value...)
		}
	}
	if !found {
		return dst, ErrNotFound
	}
	if err := sh.End(); err != nil {
		return dst, corrupt(key, "%v", err)
	}
	return out, nil
}

// nearSize is size where reads don't cross a network: it asks for row 0, and for METADATA
// if that is missing, and only of what is larger for the last rows. An engine that keeps old
// versions of a key beside the newest must step over them in a scan, all that were
// written since it last tidied up, but not in a Get.
func (s *space) nearSize(ctx context.Context, key []byte) (int64, error) {
	k := s.store.getBuf()
	defer s.store.putBuf(k)
	row, err := s.page(ctx, key, k.b[:0])
	k.b = row[:0]
	switch {
	case err == nil && len(row) < layout.RowSize:
		return int64(len(row)), nil
	case err == nil:
		return s.size(ctx, key)
	case !errors.Is(err, ErrNotFound):
		return 0, err
	}
	name := s.store.getBuf()
	defer s.store.putBuf(name)
	name.b = layout.AppendMetadata(s.prefix.AppendBase(name.b[:0], key))
	switch k.b, err = s.src.Get(ctx, name.b, k.b); {
	case err == nil:
		return s.size(ctx, key) // it is empty, or row 0 is missing
	case errors.Is(err, kv.ErrNotFound):
		return -1, nil
	}
	return 0, readError(key, err)
}

// size returns the length of the value of key, −1 for a missing key. It reads the
// last two rows, which say it all, and checks no more.
func (s *space) size(ctx context.Context, key []byte) (int64, error) {
	k := s.store.getBuf()
	defer s.store.putBuf(k)
	r := s.rows(k, key)
	r.Reverse, r.Limit = true, 2
	base := len(r.Start) - 1
	n, size := 0, int64(-1)
	for e, err := range s.src.Scan(ctx, r) {
		if err != nil {
			return 0, readError(key, err)
		}
		c, err := layout.ParseColumn(e.Key[base:])
		switch {
		case err != nil:
			return 0, corrupt(key, "%v", err)
		case n == 0 && !c.Metadata:
			return 0, corrupt(key, "METADATA is missing")
		case n == 0:
			size = 0
		case len(e.Value) == 0 || len(e.Value) > layout.RowSize:
			return 0, corrupt(key, "DATA row %d has %d bytes", c.Index, len(e.Value))
		default:
			size = int64(c.Index)*layout.RowSize + int64(len(e.Value))
		}
		n++
	}
	return size, nil
}
