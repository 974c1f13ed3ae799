package rows

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Options select entries, as actorstore.ListOptions do.
type Options struct {
	Start, End, Prefix []byte
	Limit              int
	Reverse, KeysOnly  bool
}

// An Entry is one key with its value, as actorstore.Entry: the slices are valid until the next one.
type Entry struct {
	Key, Value []byte
	Size       int
	Updated    time.Time
}

// List yields the entries that o selects. check, if it is not nil, says why the iteration must not
// begin, or go on. An error is yielded once, with a zero Entry, and ends the sequence.
func (s *Space) List(ctx context.Context, o Options, check func() error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if check != nil {
			if err := check(); err != nil {
				yield(Entry{}, err)
				return
			}
		}
		start, end := o.bounds()
		if end != nil && bytes.Compare(start, end) >= 0 {
			return
		}
		r := s.Bounds(start, end)
		r.Reverse = o.Reverse
		l := lister{space: s, opts: o, yield: yield, check: check, value: []byte{}}
		if err := l.run(s.Source.Scan(ctx, r), false); err != nil {
			yield(Entry{}, err)
		}
	}
}

// Entries puts rows in ascending order together to entries. cut says that they may have ended
// within a value: what isn't whole at the end is left out then. An error of yield's ends it.
func (s *Space) Entries(rows iter.Seq2[kv.Entry, error], limit int, cut bool, yield func(Entry) error) error {
	var failed error
	l := lister{space: s, opts: Options{Limit: limit}, value: []byte{}, yield: func(e Entry, _ error) bool {
		failed = yield(e)
		return failed == nil
	}}
	if err := l.run(rows, cut); err != nil {
		return err
	}
	return failed
}

// bounds returns the range of the logical keys that o selects; a nil end means no
// bound.
func (o *Options) bounds() (start, end []byte) {
	start, end = o.Start, o.End
	if len(o.Prefix) == 0 {
		return start, end
	}
	if bytes.Compare(start, o.Prefix) < 0 {
		start = o.Prefix
	}
	if above := kv.PrefixEnd(o.Prefix); above != nil && (end == nil || bytes.Compare(above, end) < 0) {
		end = above
	}
	return start, end
}

// Bounds returns the range of the rows of all keys in [start, end); a nil end means
// no bound.
func (s *Space) Bounds(start, end []byte) kv.Range {
	r := kv.Range{Start: s.Prefix.AppendBound(nil, start)}
	if end == nil {
		r.End = s.Prefix.AppendEnd(nil)
	} else {
		r.End = s.Prefix.AppendBound(nil, end)
	}
	return r
}

// A lister puts the rows of a scan together to entries. Rows of one key come one
// after the other: ascending, DATA rows and then METADATA; descending, the reverse.
type lister struct {
	space *Space
	opts  Options
	yield func(Entry, error) bool
	check func() error // nil: nothing to check

	n    int  // entries yielded
	stop bool // the consumer wants no more

	// The key whose rows are being read; begun until it has been yielded.
	base, key []byte
	begun     bool
	shape     layout.Shape
	value     []byte // never nil: nil is for KeysOnly
	// Descending, rows come last one first: pieces holds them as they come, and
	// last is the size of the first of them.
	pieces []byte
	next   int // index of the DATA row that must come next, −1 before the first
	last   int
}

// run takes rows and yields their entries. An error it returns was not yielded yet.
func (l *lister) run(rows iter.Seq2[kv.Entry, error], cut bool) error {
	for e, err := range rows {
		if err != nil {
			return fmt.Errorf("actorstore: list: %w", err)
		}
		if err := l.row(e); err != nil {
			return err
		}
		if l.stop {
			return nil
		}
	}
	if cut {
		return nil
	}
	return l.finish()
}

// row takes one row.
func (l *lister) row(e kv.Entry) error {
	// A base ends with bytes that occur nowhere else in it, so it is the prefix of
	// rows of this key alone, and the rows of one key are parsed once.
	if l.base == nil || !bytes.HasPrefix(e.Key, l.base) {
		if err := l.finish(); err != nil || l.stop {
			return err
		}
		if err := l.begin(e.Key); err != nil {
			return err
		}
	}
	c, err := layout.ParseColumn(e.Key[len(l.base):])
	switch {
	case err != nil:
	case !l.begun:
		err = fmt.Errorf("there is a row too many")
	case l.opts.Reverse:
		err = l.addReverse(c, e.Value)
	default:
		err = l.add(c, e.Value)
	}
	if err != nil {
		return l.space.Corrupt(l.key, "%v", err)
	}
	return nil
}

// begin starts with the key that physical belongs to.
func (l *lister) begin(physical []byte) error {
	if l.check != nil {
		if err := l.check(); err != nil {
			return err
		}
	}
	key, n, err := l.space.Prefix.ParseBase(l.key[:0], physical)
	if err != nil {
		return fmt.Errorf("actorstore: list: %w", err)
	}
	l.key, l.base = key, append(l.base[:0], physical[:n]...)
	l.begun, l.shape, l.next, l.last = true, layout.Shape{}, -1, 0
	l.value, l.pieces = l.value[:0], l.pieces[:0]
	return nil
}

// add takes the next row in ascending order. METADATA is the last of its key.
func (l *lister) add(c layout.Column, value []byte) error {
	if err := l.shape.Add(c, value); err != nil {
		return err
	}
	if c.Metadata {
		l.emit()
	} else if !l.opts.KeysOnly {
		l.value = append(l.value, value...)
	}
	return nil
}

// addReverse takes the next row in descending order. DATA row 0 is the last of its
// key; an empty value has none, and ends where the next key begins.
func (l *lister) addReverse(c layout.Column, value []byte) error {
	switch {
	case !l.shape.Metadata && c.Metadata:
		return l.shape.Add(c, value)
	case !l.shape.Metadata:
		return l.shape.End()
	case l.next < 0:
		l.next, l.last = c.Index, len(value)
	case c.Index != l.next:
		return fmt.Errorf("DATA row %d is missing, row %d is there", l.next, c.Index)
	case len(value) < layout.RowSize:
		return fmt.Errorf("DATA row %d is short and not the last", c.Index)
	}
	if len(value) == 0 || len(value) > layout.RowSize {
		return fmt.Errorf("DATA row %d has %d bytes", c.Index, len(value))
	}
	l.next--
	l.shape.Rows++
	l.shape.Size += len(value)
	if !l.opts.KeysOnly {
		l.pieces = append(l.pieces, value...)
	}
	if c.Index == 0 {
		l.turn()
		l.emit()
	}
	return nil
}

// turn puts the pieces into their order.
func (l *lister) turn() {
	for end := len(l.pieces); end > l.last; end -= layout.RowSize {
		l.value = append(l.value, l.pieces[end-layout.RowSize:end]...)
	}
	l.value = append(l.value, l.pieces[:min(l.last, len(l.pieces))]...)
}

// finish ends the key whose rows are being read, if any: no more of them come.
func (l *lister) finish() error {
	if !l.begun {
		return nil
	}
	// Ascending, METADATA would have ended the key: it is missing. Descending, an
	// empty value ends here, and one whose DATA rows stopped above 0 is damaged.
	if err := l.shape.End(); err != nil {
		return l.space.Corrupt(l.key, "%v", err)
	}
	if l.shape.Rows > 0 {
		return l.space.Corrupt(l.key, "DATA row %d is missing", l.next)
	}
	l.emit()
	return nil
}

// emit yields the key whose rows are complete.
func (l *lister) emit() {
	l.begun = false
	e := Entry{Key: l.key, Size: l.shape.Size, Updated: time.UnixMilli(l.shape.Updated)}
	if !l.opts.KeysOnly {
		e.Value = l.value
	}
	l.n++
	l.stop = !l.yield(e, nil) || l.n == l.opts.Limit
}
