package txn

import (
	"bytes"
	"slices"
)

// merged sorts spans, of which none is empty, and makes one of those that overlap or
// touch. It may change the slice.
func merged(spans []Span) []Span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b Span) int { return bytes.Compare(a.Start, b.Start) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		switch {
		case last.End == nil:
			return out
		case bytes.Compare(s.Start, last.End) > 0:
			out = append(out, s)
		case s.End == nil || bytes.Compare(s.End, last.End) > 0:
			last.End = s.End
		}
	}
	return out
}

// saw notes that the outcome of the transaction depends on [start, end); a nil end means up to the last key. It copies both.
func (tx *Tx) saw(start, end []byte) {
	if end != nil && bytes.Compare(start, end) >= 0 {
		return
	}
	if n := len(tx.reads); n > 0 {
		// What goes on where the last read ended is no further span.
		last := &tx.reads[n-1]
		if bytes.Compare(last.Start, start) <= 0 && (last.End == nil || bytes.Compare(start, last.End) <= 0) {
			if last.End != nil && (end == nil || bytes.Compare(end, last.End) > 0) {
				last.End = tx.bound(end)
			}
			return
		}
	}
	tx.reads = append(tx.reads, Span{tx.copy(start), tx.bound(end)})
	tx.size += len(start) + len(end)
}

// bound copies the end of a span.
func (tx *Tx) bound(end []byte) []byte {
	if end == nil {
		return nil
	}
	return tx.copy(end)
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

// notNil is the first key as a bound that isn't confused with the end of all keys.
func notNil(start []byte) []byte {
	if start == nil {
		return []byte{}
	}
	return start
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
