package batch

// A Sub is a sub-batch: writes that a store takes at once.
type Sub struct {
	// Ops are the writes in order. They belong to the Batch.
	Ops []Op
	// Payload is the sum of their Op.Payload in bytes.
	Payload int
}

// Split cuts b into sub-batches that are each within l, and appends them to dst.
// Their Ops, one after the other, are the ordinary writes and then the final
// ones. An empty batch has no sub-batch.
//
// The cut is greedy: a sub-batch ends where the next write would not fit. So the
// same batch always gives the same sub-batches, and never more of them than
// necessary. The final group shares the last sub-batch if it fits, and gets one of
// its own if not.
//
// What can't fit makes Split return dst as it was and a *LimitError, see Limits.Check;
// a final group that is too large is ErrTooLarge. Split writes nothing and counts
// no sub-batches, see Limits.CheckSubs.
//
// The sub-batches are valid until b changes or is Reset. When dst has room, and b
// is reused for work of similar size, nothing is allocated.
func (b *Batch) Split(l Limits, dst []Sub) ([]Sub, error) {
	l = l.OrDefault()
	n := len(b.ops)
	// One array for both groups, so that the last sub-batch is contiguous. It
	// stays b's, which makes the next append one that has room.
	all := append(b.ops, b.final.ops...)
	b.ops = all[:n]

	subs, start, payload := dst, 0, 0
	for i := range n {
		p, err := l.check(&all[i])
		if err != nil {
			return unsplit(subs, dst), err
		}
		if i-start == l.Entries || payload+p > l.Payload {
			subs = append(subs, Sub{all[start:i:i], payload})
			start, payload = i, 0
		}
		payload += p
	}
	final, err := l.checkFinal(all[n:])
	if err != nil {
		return unsplit(subs, dst), err
	}
	if len(all)-start > l.Entries || payload+final > l.Payload {
		// Only behind ordinary writes: alone, the final group fits.
		subs = append(subs, Sub{all[start:n:n], payload})
		start, payload = n, 0
	}
	if start < len(all) {
		subs = append(subs, Sub{all[start:len(all):len(all)], payload + final})
	}
	return subs, nil
}

// unsplit returns dst without what was appended to it, which may be in its array.
func unsplit(subs, dst []Sub) []Sub {
	clear(subs[len(dst):])
	return dst
}

// checkFinal returns the payload of the final group if that fits into one
// sub-batch.
func (l *Limits) checkFinal(ops []Op) (payload int, err error) {
	for i := range ops {
		p, err := l.check(&ops[i])
		if err != nil {
			return 0, err
		}
		payload += p
	}
	if len(ops) > l.Entries {
		return 0, limitError(ErrTooLarge, ops[0].Key, "entries of the final group", len(ops), l.Entries)
	}
	if payload > l.Payload {
		return 0, limitError(ErrTooLarge, ops[0].Key, "bytes of the final group", payload, l.Payload)
	}
	return payload, nil
}
