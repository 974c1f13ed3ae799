package txn

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/overlay"
	"github.com/greenroomdb/greenroom/kv"
)

// pending is what is to be done to a key whose value isn't known before the commit: a
// OpStampValue, or nothing, and then any number of OpAtomic.
type pending []Op

// Set stores value under key. It copies both. Errors, here and of the other writes:
// kv.ErrInvalid for the empty key, ErrKeyTooLarge, ErrValueTooLarge, ErrTxTooLarge,
// ErrReadOnly, and ErrCanceled or ErrUsedAfterCommit when the transaction is over.
// The transaction goes on as if the call had not been made.
func (tx *Tx) Set(key, value []byte) error {
	if err := tx.writing(key, len(value)); err != nil {
		return err
	}
	op := Op{Kind: kv.OpSet, Key: tx.room.copy(key), Value: tx.room.copy(value)}
	tx.own.Set(op.Key, op.Value)
	tx.log.add(op)
	return nil
}

// Clear removes key; a missing key is fine.
func (tx *Tx) Clear(key []byte) error {
	if err := tx.writing(key, 0); err != nil {
		return err
	}
	op := Op{Kind: kv.OpClear, Key: tx.room.copy(key)}
	tx.own.Clear(op.Key)
	tx.log.add(op)
	return nil
}

// ClearRange removes every key in [start, end). An empty end is kv.ErrInvalid; one ≤
// start removes nothing.
func (tx *Tx) ClearRange(start, end []byte) error {
	if err := tx.writable(); err != nil {
		return err
	}
	if len(end) == 0 {
		return fmt.Errorf("txn: clear range without an end: %w", kv.ErrInvalid)
	}
	if bytes.Compare(start, end) >= 0 {
		return nil
	}
	// A bound may be one byte longer than a key, to be just after it.
	if err := tx.fits(max(len(start), len(end))-1, 0, len(start)+len(end)); err != nil {
		return err
	}
	op := Op{Kind: kv.OpClearRange, Key: tx.room.copy(start), Value: tx.room.copy(end)}
	tx.own.ClearRange(op.Key, op.Value)
	tx.log.add(op)
	return nil
}

// Atomic has m change the value of key, with param, when the transaction commits.
// It reads nothing, so that it conflicts with nothing.
func (tx *Tx) Atomic(m Mutation, key, param []byte) error {
	if !m.Valid() {
		return fmt.Errorf("txn: mutation %d: %w", m, kv.ErrInvalid)
	}
	if err := tx.writing(key, len(param)); err != nil {
		return err
	}
	op := Op{Kind: OpAtomic, Mutation: m, Key: tx.room.copy(key), Value: tx.room.copy(param)}
	tx.log.add(op)
	p, ok := tx.own.Get(key)
	switch {
	case !ok:
		p = overlay.Point[pending]{Key: op.Key, Kind: overlay.Pending, Pending: pending{op}}
	case p.Kind == overlay.Pending:
		// Copies of own that a running scan has see no more of this than before.
		p.Pending = append(p.Pending, op)
	default:
		p.Key = op.Key
		if v, exists := m.Apply(p.Value, p.Kind == overlay.Value, op.Value); exists {
			p.Kind, p.Value = overlay.Value, v
		} else {
			p.Kind, p.Value = overlay.Cleared, nil
		}
	}
	tx.own.Put(p)
	return nil
}

// stampEnd is the length of the offset at the end of what gets a stamp.
const stampEnd = 4

// SetVersionstampedKey stores value under a key that has the commit's Stamp in it: of
// key, the last 4 bytes are a little-endian offset and no part of it, and the 10 bytes
// at the offset are replaced. tuple.PackWithVersionstamp makes such keys.
// Until the commit the key isn't known, so reading where it may be is ErrUnreadable.
// An offset that doesn't fit is kv.ErrInvalid, an engine that can't is kv.ErrUnsupported.
func (tx *Tx) SetVersionstampedKey(key, value []byte) error {
	key, offset, err := tx.stampable(key)
	if err != nil {
		return err
	}
	if err := tx.writing(key, len(value)); err != nil {
		return err
	}
	if !tx.log.kept {
		tx.log = journal{tx.operations(), true}
	}
	op := Op{Kind: OpStampKey, Key: tx.room.copy(key), Value: tx.room.copy(value), Offset: offset}
	tx.log.add(op)
	// From the lowest stamp to the highest.
	low := append(bytes.Clone(key[:offset]), make([]byte, len(Stamp{}))...)
	high := append(bytes.Clone(key[:offset]), bytes.Repeat([]byte{0xff}, len(Stamp{}))...)
	high = append(append(high, key[offset+len(Stamp{}):]...), 0)
	tx.unreadable = append(tx.unreadable, Span{low, high})
	return nil
}

// SetVersionstampedValue stores a value that has the commit's Stamp in it: of value,
// the last 4 bytes are a little-endian offset and no part of it, and the 10 bytes at
// the offset are replaced. Until the commit, reading key is ErrUnreadable. An offset
// that doesn't fit is kv.ErrInvalid, an engine that can't is kv.ErrUnsupported.
func (tx *Tx) SetVersionstampedValue(key, value []byte) error {
	value, offset, err := tx.stampable(value)
	if err != nil {
		return err
	}
	if err := tx.writing(key, len(value)); err != nil {
		return err
	}
	op := Op{Kind: OpStampValue, Key: tx.room.copy(key), Value: tx.room.copy(value), Offset: offset}
	tx.own.Put(overlay.Point[pending]{Key: op.Key, Kind: overlay.Pending, Pending: pending{op}})
	tx.log.add(op)
	return nil
}

// stampable takes the offset from the end of b.
func (tx *Tx) stampable(b []byte) (rest []byte, offset int, err error) {
	if !tx.db.tr.TxCaps().Has(Versionstamps) {
		return nil, 0, fmt.Errorf("txn: versionstamps: %w", kv.ErrUnsupported)
	}
	n := len(b) - stampEnd
	if n < 0 {
		return nil, 0, fmt.Errorf("txn: versionstamp: no offset in %d bytes: %w", len(b), kv.ErrInvalid)
	}
	at := int64(binary.LittleEndian.Uint32(b[n:]))
	if at+int64(len(Stamp{})) > int64(n) {
		return nil, 0, fmt.Errorf("txn: versionstamp: offset %d in %d bytes: %w", at, n, kv.ErrInvalid)
	}
	return b[:n], int(at), nil
}

// AddReadConflictKey makes the transaction fail if another commit has written key
// since its first read, as if it had read it. An engine that can't is kv.ErrUnsupported.
func (tx *Tx) AddReadConflictKey(key []byte) error {
	return tx.AddReadConflictRange(key, append(key[:len(key):len(key)], 0))
}

// AddReadConflictRange is AddReadConflictKey for [start, end); a nil end means up to the last key.
func (tx *Tx) AddReadConflictRange(start, end []byte) error {
	return tx.declare(&tx.declared, start, end)
}

// AddWriteConflictKey makes other transactions fail that have read key, as if this one
// had written it. An engine that can't is kv.ErrUnsupported.
func (tx *Tx) AddWriteConflictKey(key []byte) error {
	return tx.AddWriteConflictRange(key, append(key[:len(key):len(key)], 0))
}

// AddWriteConflictRange is AddWriteConflictKey for [start, end); a nil end means up to the last key.
func (tx *Tx) AddWriteConflictRange(start, end []byte) error {
	if tx.readOnly {
		return ErrReadOnly
	}
	return tx.declare(&tx.writes, start, end)
}

func (tx *Tx) declare(to *[]Span, start, end []byte) error {
	if err := tx.usable(); err != nil {
		return err
	}
	if !tx.db.tr.TxCaps().Has(ConflictRanges) {
		return fmt.Errorf("txn: conflict ranges: %w", kv.ErrUnsupported)
	}
	if end != nil && bytes.Compare(start, end) >= 0 {
		return nil
	}
	if err := tx.fits(max(len(start), len(end))-1, 0, len(start)+len(end)); err != nil {
		return err
	}
	s := Span{Start: tx.room.copy(start)}
	if end != nil {
		s.End = tx.room.copy(end)
	}
	*to = append(*to, s)
	return nil
}

// writable returns the reason why nothing can be written.
func (tx *Tx) writable() error {
	if err := tx.usable(); err != nil {
		return err
	}
	if tx.readOnly {
		return ErrReadOnly
	}
	return nil
}

// writing is what every write of a key begins with.
func (tx *Tx) writing(key []byte, value int) error {
	if err := tx.writable(); err != nil {
		return err
	}
	if len(key) == 0 {
		return fmt.Errorf("txn: write of the empty key: %w", kv.ErrInvalid)
	}
	return tx.fits(len(key), value, len(key)+value)
}

// fits checks a write against the limits, and counts it.
func (tx *Tx) fits(key, value, bytes int) error {
	l := &tx.db.opts.Limits
	switch {
	case key > l.Key:
		return fmt.Errorf("%w: %d bytes, %d are allowed", ErrKeyTooLarge, key, l.Key)
	case value > l.Value:
		return fmt.Errorf("%w: %d bytes, %d are allowed", ErrValueTooLarge, value, l.Value)
	case tx.size+bytes > l.Bytes:
		return fmt.Errorf("%w: %d bytes, %d are allowed", ErrTxTooLarge, tx.size+bytes, l.Bytes)
	}
	tx.size += bytes
	return nil
}

// arenaBytes is the least that is allocated for keys and values.
const arenaBytes = 512

// An arena is room for keys and values of writes.
type arena struct{ free []byte }

// copy returns a copy of b, never nil, that lives as long as the transaction.
func (a *arena) copy(b []byte) []byte {
	if len(b) > cap(a.free)-len(a.free) {
		a.free = make([]byte, 0, max(arenaBytes, min(2*cap(a.free), 1<<16), len(b)))
	}
	n := len(a.free)
	a.free = append(a.free, b...)
	return a.free[n:len(a.free):len(a.free)]
}

// A journal is all operations in the order of the calls. It is kept from the first
// versionstamped key on, because from then on the overlay can't say what they make.
type journal struct {
	ops  []Op
	kept bool
}

// add adds op, if the journal is kept.
func (j *journal) add(op Op) {
	if j.kept {
		j.ops = append(j.ops, op)
	}
}

// operations returns what is to be committed: the log, or what own comes down to.
func (tx *Tx) operations() []Op {
	if tx.log.kept || tx.own.Empty() {
		return tx.log.ops
	}
	ops := make([]Op, 0, tx.own.Len()+1)
	tx.own.Gaps(func(start, end []byte) {
		ops = append(ops, Op{Kind: kv.OpClearRange, Key: start, Value: end})
	})
	for c := tx.own.Cursor(nil, nil, false); c.Valid(); c.Next() {
		switch p := c.Point(); p.Kind {
		case overlay.Value:
			ops = append(ops, Op{Kind: kv.OpSet, Key: p.Key, Value: p.Value})
		case overlay.Cleared:
			ops = append(ops, Op{Kind: kv.OpClear, Key: p.Key})
		case overlay.Pending:
			ops = append(ops, p.Pending...)
		}
	}
	return ops
}
