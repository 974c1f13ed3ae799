package txn

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/greenroomdb/greenroom/internal/overlay"
	"github.com/greenroomdb/greenroom/kv"
)

// A txScan is one iteration of a transaction: the state below, merged with what the
// transaction wrote before the iteration began.
type txScan struct {
	tx      *Tx
	ctx     context.Context
	r       kv.Range
	own     overlay.Map[pending]
	yield   func(kv.Entry, error) bool
	seen    observed
	entries int
	over    bool // nothing may be yielded any more
}

// ageEvery is how many entries a scan yields between two looks at the clock.
const ageEvery = 16

// scan returns the entries of r; serial says whether they count as read.
func (tx *Tx) scan(ctx context.Context, r kv.Range, serial bool) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := tx.reading(ctx); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		start, end, blocked := tx.readable(r)
		s := &txScan{tx: tx, ctx: ctx, r: r, own: tx.own.Freeze(), yield: yield}
		s.seen = observed{on: serial && !tx.readOnly, reverse: r.Reverse, edge: bytes.Clone(start)}
		if r.Reverse {
			s.seen.edge = bytes.Clone(end)
		}
		tx.scans = append(tx.scans, s)
		defer func() {
			s.seen.flush(tx)
			tx.scans = slices.DeleteFunc(tx.scans, func(o *txScan) bool { return o == s })
		}()
		s.own.Segments(start, end, r.Reverse, s.segment)
		if blocked {
			s.fail(ErrUnreadable)
		}
	}
}

// readable cuts off r what lies behind the first span that can't be read, and reports
// whether there was one.
func (tx *Tx) readable(r kv.Range) (start, end []byte, blocked bool) {
	start, end = r.Start, r.End
	for _, u := range tx.unreadable {
		if end != nil && bytes.Compare(u.Start, end) >= 0 || bytes.Compare(u.End, start) <= 0 ||
			end != nil && bytes.Compare(start, end) >= 0 {
			continue
		}
		blocked = true
		if r.Reverse {
			start = u.End
		} else {
			end = u.Start
		}
	}
	return start, end, blocked
}

// segment goes through a piece of the range; cleared is one in which the state below
// doesn't count. It reports whether the scan goes on.
func (s *txScan) segment(start, end []byte, cleared bool) bool {
	points := s.own.Cursor(start, end, s.r.Reverse)
	if cleared {
		s.seen.skip(s.tx, start, end)
	} else if !s.merge(kv.Range{Start: start, End: end, Limit: s.hint(), Reverse: s.r.Reverse}, &points) {
		return false
	}
	for ; points.Valid(); points.Next() {
		if !s.point(points.Point(), nil, false, cleared) {
			return false
		}
	}
	if !cleared {
		if s.r.Reverse {
			s.seen.reach(notNil(start))
		} else {
			s.seen.reach(end)
		}
	}
	return true
}

// hint is how many entries of the state below are enough: those that are wanted, and
// those that the transaction may have removed.
func (s *txScan) hint() int {
	if s.r.Limit <= 0 {
		return 0
	}
	return s.r.Limit - s.entries + s.own.Len()
}

// merge yields the entries below, and the points among them.
func (s *txScan) merge(r kv.Range, points *overlay.Cursor[pending]) bool {
	for e, err := range s.tx.attempt.Scan(s.ctx, r) {
		if err != nil {
			s.fail(err)
			return false
		}
		for points.Valid() && s.before(points.Point().Key, e.Key) {
			if !s.point(points.Point(), nil, false, false) {
				return false
			}
			points.Next()
		}
		if points.Valid() && bytes.Equal(points.Point().Key, e.Key) {
			p := points.Point()
			points.Next()
			if !s.point(p, e.Value, true, false) {
				return false
			}
			continue
		}
		s.seen.reachKey(e.Key)
		if !s.emit(e) {
			return false
		}
	}
	return true
}

// before reports whether a comes before b in the direction of the scan.
func (s *txScan) before(a, b []byte) bool {
	c := bytes.Compare(a, b)
	return c < 0 && !s.r.Reverse || c > 0 && s.r.Reverse
}

// point yields what the transaction made of a key, of which below is the value in the
// state below, if it exists. In a cleared segment nothing need be noted as seen.
func (s *txScan) point(p overlay.Point[pending], below []byte, exists, cleared bool) bool {
	value := p.Value
	if p.Kind == overlay.Pending {
		if p.Pending[0].Kind == OpStampValue {
			s.fail(ErrUnreadable)
			return false
		}
		s.seen.reachKey(p.Key)
		value, exists = p.Pending.apply(below, exists)
	} else {
		if exists = p.Kind == overlay.Value; !cleared {
			s.seen.skip(s.tx, p.Key, append(p.Key[:len(p.Key):len(p.Key)], 0))
		}
	}
	return !exists || s.emit(kv.Entry{Key: p.Key, Value: value})
}

// apply does to a value what is pending.
func (p pending) apply(value []byte, exists bool) ([]byte, bool) {
	for i := range p {
		value, exists = p[i].Mutation.Apply(value, exists, p[i].Value)
	}
	return value, exists
}

// emit yields one entry, and reports whether the scan goes on.
func (s *txScan) emit(e kv.Entry) bool {
	s.tx.bytesRead += int64(len(e.Key) + len(e.Value))
	if !s.yield(e, nil) {
		s.over = true
		return false
	}
	// The transaction may have been ended in the loop.
	if err := s.tx.usable(); err != nil {
		s.fail(err)
		return false
	}
	if s.entries++; s.entries == s.r.Limit {
		s.over = true
		return false
	}
	if s.entries%ageEvery == 0 {
		if err := s.tx.fresh(); err != nil {
			s.fail(err)
			return false
		}
	}
	return true
}

// fail ends the scan with an error.
func (s *txScan) fail(err error) {
	if !s.over {
		s.over = true
		s.yield(kv.Entry{}, err)
	}
}

// An observed is how far a scan has seen. It begins at one end of its range, the
// edge, and moves to the other.
type observed struct {
	on      bool // serializable
	reverse bool
	// edge is where what isn't noted yet begins, on the side that the scan comes
	// from: for a reverse scan nil is beyond all keys.
	edge []byte
	// far is where it ends, if moved; for a forward scan nil is beyond all keys.
	far   []byte
	moved bool
	buf   []byte // far's room
}

// reach says that everything up to pos was seen, which isn't kept; nil is beyond all
// keys.
func (o *observed) reach(pos []byte) {
	if !o.on {
		return
	}
	o.moved, o.far = true, nil
	if pos != nil {
		o.buf = append(o.buf[:0], pos...)
		o.far = notNil(o.buf)
	}
}

// reachKey says that key itself was seen as well.
func (o *observed) reachKey(key []byte) {
	if !o.on {
		return
	}
	o.moved = true
	o.buf = append(o.buf[:0], key...)
	if !o.reverse {
		o.buf = append(o.buf, 0)
	}
	o.far = notNil(o.buf)
}

// skip says that everything up to [start, end) was seen, and that this itself needn't
// be: the transaction's own writes say what is there. There is an end.
func (o *observed) skip(tx *Tx, start, end []byte) {
	if !o.on {
		return
	}
	near, next := notNil(start), end
	if o.reverse {
		near, next = end, notNil(start)
	}
	o.reach(near)
	o.flush(tx)
	o.edge = next
}

// flush notes what was seen. The scan goes on from there.
func (o *observed) flush(tx *Tx) {
	if !o.on || !o.moved {
		return
	}
	o.moved = false
	if o.reverse {
		tx.saw(o.far, o.edge)
	} else {
		tx.saw(o.edge, o.far)
	}
	if o.edge = nil; o.far != nil {
		o.edge = append([]byte{}, o.far...)
	}
}

// saw notes that the outcome of the transaction depends on [start, end); a nil end means up to the last key. It copies both.
func (tx *Tx) saw(start, end []byte) {
	if end != nil && bytes.Compare(start, end) >= 0 {
		return
	}
	if n := len(tx.reads); n > 0 {
		// A read that goes on where the last one ended needs no span of its own.
		last := &tx.reads[n-1]
		if bytes.Compare(last.Start, start) <= 0 && (last.End == nil || bytes.Compare(start, last.End) <= 0) {
			if last.End != nil && (end == nil || bytes.Compare(end, last.End) > 0) {
				last.End = tx.bound(end)
			}
			return
		}
	}
	tx.reads = append(tx.reads, Span{tx.room.copy(start), tx.bound(end)})
	tx.size += len(start) + len(end)
}

// bound copies the end of a span.
func (tx *Tx) bound(end []byte) []byte {
	if end == nil {
		return nil
	}
	return tx.room.copy(end)
}
