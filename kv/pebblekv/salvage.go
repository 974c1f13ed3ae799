package pebblekv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"log/slog"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/wal"
)

// A Gap is a range of keys of which rows can't be read.
type Gap struct {
	// Range has no bound where that is nil.
	kv.Range
	// Cause is kv.ErrCorrupt, and names the file if that is known.
	Cause error
}

// maxHalved is how often a gap with several damaged blocks is halved in search of rows between them. Before the first one of a table, and
// behind the last one, all rows are found without that.
const maxHalved = 9

// A Salvage is a damaged store, opened to copy what can be read of it.
type Salvage struct{ d *DB }

// OpenSalvage opens a store for reading of which files may be damaged or lost. It changes nothing in dir. The logger is that of
// Options, and may be nil.
//
// Errors: those of Open, kv.ErrCorrupt if it is too damaged for that.
func OpenSalvage(dir string, logger *slog.Logger) (*Salvage, error) {
	d, err := Open(dir, &Options{ReadOnly: true, WithoutLogRest: func(error) {}, Logger: logger})
	if err != nil {
		return nil, err
	}
	return &Salvage{d}, nil
}

// Close closes the store.
func (s *Salvage) Close() error { return s.d.Close() }

// LogDamage returns why commits at the end of the log are left out, as Options.WithoutLogRest gets it, or nil if none are.
func (s *Salvage) LogDamage() error {
	if s.d.rest == nil {
		return nil
	}
	return s.d.rest.cause
}

// A LeftCommit is a commit at the end of a log that the store leaves out.
type LeftCommit struct {
	// Number is that in the log. The first one that is left out has Last + 1, and those that can't be read have the numbers in
	// between.
	Number, Last uint64
	// Touched are the keys that it writes or clears: each a range. The caller may keep them.
	Touched []kv.Range
}

// LeftCommits yields the commits that can still be read of those that are left out, in order; see Options.WithoutLogRest. It
// reads them from the log, one at a time. The error is that of reading, and ends the sequence.
func (s *Salvage) LeftCommits() iter.Seq2[LeftCommit, error] {
	return func(yield func(LeftCommit, error) bool) {
		rest := s.d.rest
		if rest == nil {
			return
		}
		errStop := errors.New("the caller wants no more")
		err := wal.Salvage(rest.disk, rest.disk.PathJoin(s.d.store.dir, logDir), rest.last, func(number uint64, batch []byte) error {
			if !yield(LeftCommit{number, rest.last, rangesOf(batch)}, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(LeftCommit{}, wrap(err))
		}
	}
}

// rangesOf returns what a batch of the log writes or clears, as far as it is one.
func rangesOf(batch []byte) (ranges []kv.Range) {
	for op, err := range (Record{Batch: batch}).Ops() {
		if err != nil {
			return ranges
		}
		r := kv.Range{Start: bytes.Clone(op.Key), End: bytes.Clone(op.End)}
		if op.End == nil {
			r.End = append(bytes.Clone(op.Key), 0)
		}
		if isOwn(op.Key) {
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// Rows hands each row that can be read to row, in the order of their keys, and the gaps between them to gap. In a gap nothing is
// handed over, even where an older table has rows: newer ones may be in a damaged block. What row gets is valid until it returns.
// The error of row, of gap or of ctx ends it.
func (s *Salvage) Rows(ctx context.Context, row func(kv.Entry) error, gap func(Gap) error) error {
	d := s.d.store
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.life.Leave()
	w := &salvager{store: d, ctx: ctx, row: row, gap: gap}
	levels, err := d.db.SSTables()
	if err != nil {
		return wrap(err)
	}
	for _, tables := range levels {
		for i := range tables {
			w.bounds = append(w.bounds, tables[i].Smallest.UserKey, append(bytes.Clone(tables[i].Largest.UserKey), 0))
		}
	}
	slices.SortFunc(w.bounds, bytes.Compare)
	if err := w.all(); err != nil {
		return err
	}
	return w.flush()
}

// A salvager is one run of Rows.
type salvager struct {
	*store
	ctx    context.Context
	row    func(kv.Entry) error
	gap    func(Gap) error
	bounds [][]byte // where tables begin and end, in order
	found  *Gap     // the last gap, which the next one may be a part of
}

// all salvages all rows.
func (s *salvager) all() error {
	for start := firstKey; ; {
		next, damage, err := s.forward(start, nil)
		if err != nil || damage == nil {
			return err
		}
		behind, right, err := s.behind(next)
		if err == nil {
			err = s.within(next, behind, damage, right, maxHalved)
		}
		if err != nil || behind == nil {
			return err
		}
		start = behind
	}
}

// forward hands over the rows of [start, end) up to the first one that can't be read. It returns the first key behind them, and
// what is damaged there, nil if nothing is.
func (s *salvager) forward(start, end []byte) (next []byte, damage, err error) {
	next = start
	damage, err = s.walk(start, end, func(it *pebble.Iterator) (bool, error) {
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				return false, err
			}
			if !isOwn(it.Key()) {
				if err = s.flush(); err == nil {
					err = s.row(kv.Entry{Key: it.Key(), Value: value})
				}
			}
			if next = append(bytes.Clone(it.Key()), 0); err != nil {
				return true, err
			}
			if err := s.ctx.Err(); err != nil {
				return true, err
			}
		}
		return false, nil
	})
	return next, damage, err
}

// backward returns the first key of [start, end) from which on all rows can be read: start if they all can, end if none can; and what
// is damaged before it.
func (s *salvager) backward(start, end []byte) (first []byte, damage, err error) {
	first = end
	damage, err = s.walk(start, end, func(it *pebble.Iterator) (bool, error) {
		for ok := it.Last(); ok; ok = it.Prev() {
			if _, err := it.ValueAndErr(); err != nil {
				return false, err
			}
			first = bytes.Clone(it.Key())
		}
		return false, s.ctx.Err()
	})
	if damage == nil {
		first = start
	}
	return first, damage, err
}

// walk runs fn with an iterator over [start, end). What fn returns is damage, unless its bool says that it isn't about what is stored.
func (s *salvager) walk(start, end []byte, fn func(*pebble.Iterator) (bool, error)) (damage, err error) {
	other := false
	damage = s.fault.Guard(func() error {
		it, err := s.db.NewIterWithContext(s.ctx, &pebble.IterOptions{LowerBound: start, UpperBound: end})
		if err != nil {
			return err
		}
		if other, err = fn(it); other {
			return errors.Join(err, it.Close())
		}
		return cmp.Or(err, it.Error(), it.Close())
	})
	if bad := cmp.Or(s.ctx.Err(), s.fault.Get()); bad != nil {
		return nil, bad
	}
	if other {
		return nil, damage
	}
	return wrap(damage), nil
}

// behind returns the first key behind from, at which a row can't be read, from which on rows can be read again: those of the table or
// tables there; and what is damaged before it. The key is nil if there are no such rows.
func (s *salvager) behind(from []byte) (first []byte, damage, err error) {
	i, _ := slices.BinarySearchFunc(s.bounds, from, bytes.Compare)
	for _, at := range s.bounds[i:] {
		if bytes.Compare(at, from) <= 0 {
			continue
		}
		damage, err := s.walk(at, nil, func(it *pebble.Iterator) (bool, error) {
			it.First()
			return false, nil
		})
		if err != nil {
			return nil, nil, err
		}
		if damage == nil {
			first, damage, err = s.backward(from, at)
			if damage == nil {
				first = at // or the walk would begin where it has ended
			}
			return first, damage, err
		}
	}
	return nil, nil, nil
}

// within salvages what is left in [from, to), whose first and last rows can't be read, with what is damaged there; a nil to is the end of all.
func (s *salvager) within(from, to []byte, left, right error, halves int) error {
	mid := middle(from, to)
	if mid == nil || halves == 0 || right == nil || left.Error() == right.Error() { // one block, for the most part
		return s.lost(Gap{kv.Range{Start: from, End: to}, left})
	}
	first, damage, err := s.backward(from, mid)
	if err == nil && damage != nil {
		err = s.within(from, first, left, damage, halves-1)
	}
	if err != nil {
		return err
	}
	next, damage, err := s.forward(first, to)
	if err == nil && damage != nil && bytes.Compare(next, mid) < 0 { // no row lies between them
		next, damage, err = s.forward(mid, to)
	}
	if err != nil || damage == nil {
		return err
	}
	return s.within(next, to, damage, right, halves-1)
}

// lost takes in a gap.
func (s *salvager) lost(g Gap) error {
	if s.found != nil && bytes.Equal(s.found.End, g.Start) {
		s.found.End = g.End
		return nil
	}
	err := s.flush()
	s.found = &g
	return err
}

// flush hands over the last gap.
func (s *salvager) flush() error {
	if s.found == nil {
		return nil
	}
	g := *s.found
	s.found = nil
	return s.gap(g)
}

// middle returns a key between from and to, about in the middle of the keys that there can be, or nil if there may be none.
func middle(from, to []byte) []byte {
	same := 0
	for same < len(from) && same < len(to) && from[same] == to[same] {
		same++
	}
	number := func(key []byte, missing byte) uint64 {
		var b [8]byte
		for i := range b {
			b[i] = missing
		}
		copy(b[:], key[min(same, len(key)):])
		return binary.BigEndian.Uint64(b[:])
	}
	a, b := number(from, 0), uint64(math.MaxUint64)
	if to != nil {
		b = number(to, 0)
	}
	if b < a+2 {
		return nil
	}
	return binary.BigEndian.AppendUint64(bytes.Clone(from[:same]), a+(b-a)/2)
}
