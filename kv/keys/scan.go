package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// An Item is one key of a type, with its value. Both are the caller's.
type Item[K, V any] struct {
	Key   K
	Value V
	row   []byte // the last row of it that was read, the Reader's
}

// Cursor returns the place behind the item, in the direction of the scan that yielded
// it, for ScanOptions.After. It may be called until the next iteration.
func (i *Item[K, V]) Cursor() Cursor { return bytes.Clone(i.row) }

// A Cursor is a place in a scan where another one can go on: also later, in another
// transaction or process. It is a packed key, relative to the scope of the Reader; a nil
// one isn't a place.
type Cursor []byte

// ScanOptions say which entries of a subspace a scan reads. The zero value means all.
type ScanOptions struct {
	// From and To bound the elements behind the subspace, half-open: [From, To) in the
	// order of tuples. An empty one doesn't bound it. With From {5} the first entry is that
	// of 5, or one that goes on behind 5; none of 5's is read with To {5}.
	From, To tuple.Tuple
	// Self reads the key that is the prefix of the subspace as well, which else isn't
	// in it.
	Self bool
	// After begins behind a place that an earlier scan in the same direction came to.
	After Cursor
	// Strict makes an entry of another type an error, ErrOtherKey, where nothing else
	// should be.
	Strict bool
	// Reverse goes from the last key to the first.
	Reverse bool
	// Limit is the largest number of items; 0 means all. What is skipped doesn't
	// count. On a Reader whose state changes, such as an Engine, a limited scan may
	// be made of reads of several states.
	Limit int
}

// All yields the entries in sub that are keys of type K, in their order:
//
//	for item, err := range keys.All[WorkflowID](ctx, tx, sub, nil) { … }
//
// Entries of other types that lie there too are skipped: K's constants and the kinds
// of its elements tell them apart. An entry of K whose value is damaged is a *Error
// that names the key. An error is yielded once, with a zero Item, and ends the
// sequence. The prefix of sub, taken as a key, isn't in it; see Self. The zero Subspace is all
// that r reads.
//
// A nil opts is the zero ScanOptions. For entries of several types see Walk, for
// stopping after some time see Page.
func All[K Key[V], V any, P Pointer[K]](ctx context.Context, r kv.Reader, sub tuple.Subspace, opts *ScanOptions) iter.Seq2[Item[K, V], error] {
	return func(yield func(Item[K, V], error) bool) {
		c := newTyped[K, V, P](func(row []byte, k K, v V) error {
			if !yield(Item[K, V]{k, v, row}, nil) {
				return errStop
			}
			return nil
		})
		if err := scan(ctx, r, sub, opts, &scanner{cases: []Case{c}}); err != nil {
			yield(Item[K, V]{}, err)
		}
	}
}

// PageOptions bound a Page.
type PageOptions struct {
	ScanOptions
	// Budget is how long Page goes on to read; 0 doesn't bound it. At least one entry is
	// looked at, so that pages get somewhere. Transactions have a time limit: reading
	// half as long leaves time for the rest.
	Budget time.Duration
}

// Page returns the next items of All, and where the next page begins: a place for
// After of its options, nil when this was the last one. When a page ends at its Limit
// the next one may be empty. The time that is spent on skipping entries counts as well,
// so a page that isn't the last one can be short, or empty. A nil opts sets no bounds.
func Page[K Key[V], V any, P Pointer[K]](ctx context.Context, r kv.Reader, sub tuple.Subspace, opts *PageOptions) (items []Item[K, V], next Cursor, err error) {
	if opts == nil {
		opts = &PageOptions{}
	}
	c := newTyped[K, V, P](func(_ []byte, k K, v V) error {
		items = append(items, Item[K, V]{Key: k, Value: v})
		return nil
	})
	s := scanner{cases: []Case{c}}
	if opts.Budget > 0 {
		start := time.Now()
		s.spent = func() bool { return time.Since(start) >= opts.Budget }
	}
	if err := scan(ctx, r, sub, &opts.ScanOptions, &s); err != nil {
		return nil, nil, err
	}
	if s.stopped {
		next = bytes.Clone(s.last)
	}
	return items, next, nil
}

// Walk reads the entries in sub once, in order, and gives each to the first of cases
// that takes it: a type switch over stored keys.
//
//	err := keys.Walk(ctx, tx, sub, nil,
//		keys.On(func(k NameKey, name string) error { … }),
//		keys.On(func(k StepKey, s Step) error { … }))
//
// Entries that none takes are skipped. A Case is used for one Walk. See All for sub,
// opts and errors.
func Walk(ctx context.Context, r kv.Reader, sub tuple.Subspace, opts *ScanOptions, cases ...Case) error {
	return scan(ctx, r, sub, opts, &scanner{cases: cases})
}

// Texts yields the first elements of the keys in sub, in their order, each once: the names of what lies there. It
// reads one row of each, and passes over the others. A key whose first element isn't a text is kv.ErrCorrupt. An
// error is yielded once, with an empty text, and ends the sequence.
func Texts(ctx context.Context, r kv.Reader, sub tuple.Subspace) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		start, end := sub.Range()
		for {
			text, found := []byte(nil), false
			for e, err := range r.Scan(ctx, kv.Range{Start: start, End: end, Limit: 1}) {
				if err == nil {
					if text, _, found = tuple.NextString(nil, e.Key[len(sub.Bytes()):]); !found {
						err = fmt.Errorf("keys: the first element of %s behind %s is not a text: %w", keyWords(e.Key), keyWords(sub.Bytes()), kv.ErrCorrupt)
					}
				}
				if err != nil {
					yield("", err)
					return
				}
			}
			if !found || !yield(string(text), nil) {
				return
			}
			_, start = sub.Sub(string(text)).Range()
		}
	}
}

// errStop ends a scan whose consumer wants no more.
var errStop = errors.New("keys: the scan was stopped")

// bounds returns the range of keys in sub that o selects.
func (o *ScanOptions) bounds(sub tuple.Subspace) (r kv.Range, err error) {
	r.Reverse = o.Reverse
	r.Start, r.End = sub.Range()
	if o.Self {
		r.Start = sub.Bytes()
	}
	if len(o.From) > 0 {
		if r.Start, err = sub.Append(nil, o.From); err != nil {
			return r, fmt.Errorf("keys: scan from: %w", err)
		}
	}
	if len(o.To) > 0 {
		if r.End, err = sub.Append(nil, o.To); err != nil {
			return r, fmt.Errorf("keys: scan to: %w", err)
		}
	}
	behind(&r, o.After)
	return r, nil
}

// behind leaves out what a scan in r's direction that came to key has read.
func behind(r *kv.Range, key []byte) {
	switch {
	case key == nil:
	case r.Reverse && bytes.Compare(key, r.End) < 0:
		r.End = bytes.Clone(key)
	case !r.Reverse && bytes.Compare(key, r.Start) >= 0:
		r.Start = append(bytes.Clone(key), 0)
	}
}

// A scanner reads the entries of a range and gives them to cases.
type scanner struct {
	cases  []Case
	limit  int // items; 0 means all
	strict bool
	n      int         // items so far
	spent  func() bool // says that the time is over; nil means no bound

	open    Case   // the case that waits for more pieces of a value, or nil
	rows    int    // read from the current range
	last    []byte // the last row of what is done with: the place to go on after
	stopped bool   // before the end, by the limit or the time
}

// scan reads what o selects.
func scan(ctx context.Context, r kv.Reader, sub tuple.Subspace, o *ScanOptions, s *scanner) error {
	if o == nil {
		o = &ScanOptions{}
	}
	rng, err := o.bounds(sub)
	if err != nil {
		return err
	}
	s.limit, s.strict = o.Limit, o.Strict
	for _, c := range s.cases {
		c.begin(o.Reverse)
	}
	if err := s.run(ctx, r, rng); err != errStop {
		return err
	}
	return nil
}

// run reads rng, in several scans if a limit of rows turns out too low.
func (s *scanner) run(ctx context.Context, r kv.Reader, rng kv.Range) error {
	for {
		rng.Limit = s.rowLimit()
		s.rows = 0
		for e, err := range r.Scan(ctx, rng) {
			if err == nil {
				s.rows++
				err = s.row(e)
			}
			if err != nil {
				return err
			}
			if s.stopped {
				return nil
			}
		}
		if rng.Limit == 0 || s.rows < rng.Limit {
			return s.close()
		}
		behind(&rng, s.last)
	}
}

// rowLimit is how many rows must be read at least: a caller that knows it reads no further. A
// chunked value has any number of them.
func (s *scanner) rowLimit() int {
	if s.limit == 0 {
		return 0
	}
	for _, c := range s.cases {
		if c.chunks() {
			return 0
		}
	}
	return s.limit - s.n
}

// row takes the next row.
func (s *scanner) row(e kv.Entry) error {
	if s.open != nil {
		more, err := s.open.more(e)
		if err != nil {
			return err
		}
		if more {
			s.passed(e)
			return nil
		}
		if err := s.close(); err != nil || s.stopped {
			return err
		}
	}
	for _, c := range s.cases {
		v, err := c.take(e)
		if err != nil {
			return err
		}
		switch v {
		case opened:
			s.open = c
		case taken:
			s.count()
		case other:
			continue
		}
		s.passed(e)
		return nil
	}
	if s.strict {
		return fmt.Errorf("keys: scan: %s: %w", keyWords(e.Key), ErrOtherKey)
	}
	s.passed(e)
	return nil
}

// passed says that the scan is done with a row.
func (s *scanner) passed(e kv.Entry) {
	s.last = append(s.last[:0], e.Key...)
	if s.spent != nil && s.open == nil && s.spent() {
		s.stopped = true
	}
}

// close ends the value whose pieces were read, if any.
func (s *scanner) close() error {
	if s.open == nil {
		return nil
	}
	err := s.open.close()
	s.open = nil
	if err == nil {
		s.count()
	}
	return err
}

// count counts an item.
func (s *scanner) count() {
	s.n++
	s.stopped = s.n == s.limit
}
