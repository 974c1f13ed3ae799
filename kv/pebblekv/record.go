package pebblekv

import (
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
)

// A Record is one commit as the log has it.
type Record struct {
	// Number is that of the commit: one more than that of the one before it.
	Number uint64
	// Time is when the commit was made, in whole milliseconds: of the clock of its process, which isn't set back for it. Of several within
	// stampEvery the first one says it, so it may be as much too early. It is zero if the log doesn't say it of an earlier commit either.
	Time time.Time
	// Batch are its operations, in a form of Pebble's: what it calls the representation of a batch, without the first 8 bytes.
	Batch []byte
}

// A RecordOp is one operation of a Record.
type RecordOp struct {
	// Key is what it writes or deletes, and End, if it isn't nil, the end of the range of keys that it deletes.
	Key, End []byte
	// Value is what it sets Key to, nil if it doesn't, or sets a part of it.
	Value []byte
	// Raw is the operation as it stands in the batch.
	Raw []byte
}

const (
	// stampEvery is how often at most a record says when its commit was made.
	stampEvery = 10 * time.Millisecond
	// stampTag is the first byte of that: of what Pebble calls log data, which goes to the log and not to the tables.
	stampTag  = 't'
	stampSize = 9
	// countBytes is what a batch in the log begins with: how many operations it has.
	countBytes = 4
)

// stamp adds to a batch when it is committed, if the log doesn't say it of one shortly before. The commit lock is held.
func (c *clock) stamp(b *pebble.Batch) error {
	if c.now == nil {
		return nil
	}
	now := c.now().UnixMilli()
	if now < c.stamped+stampEvery.Milliseconds() {
		return nil
	}
	c.stamped = now
	var data [stampSize]byte
	data[0] = stampTag
	binary.BigEndian.PutUint64(data[1:], uint64(now))
	return b.LogData(data[:], nil)
}

// A clock says when commits are made.
type clock struct {
	now     func() time.Time // nil if batches say it already
	stamped int64            // what the log says last, in milliseconds since 1970
}

// timeOf returns what a record says of its time, zero if it says nothing, as most do. The time is the last operation.
func timeOf(batch []byte) (at time.Time) {
	const size = 2 + stampSize // of the operation: its kind, the length of its data, these
	if n := len(batch) - size; n < countBytes || string(batch[n:n+3]) != string([]byte{byte(pebble.InternalKeyKindLogData), stampSize, stampTag}) {
		return at
	}
	// A value may end so, too.
	for op, err := range batchOps(batch) {
		if err == nil && op.kind == pebble.InternalKeyKindLogData && len(op.key) == stampSize && op.key[0] == stampTag {
			at = time.UnixMilli(int64(binary.BigEndian.Uint64(op.key[1:])))
		}
	}
	return at
}

// Ops yields the operations, those on the store's own rows among them. What it yields are parts of the batch. The error is
// kv.ErrCorrupt, and ends it.
func (r Record) Ops() iter.Seq2[RecordOp, error] {
	return func(yield func(RecordOp, error) bool) {
		for op, err := range batchOps(r.Batch) {
			if err != nil {
				yield(RecordOp{}, fmt.Errorf("record %d of the log: %w", r.Number, err))
				return
			}
			out := RecordOp{Key: op.key, Raw: op.raw}
			switch op.kind {
			case pebble.InternalKeyKindLogData:
				continue
			case pebble.InternalKeyKindRangeDelete:
				out.End = op.value
			case pebble.InternalKeyKindSet:
				out.Value = op.value
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

// NoOp is an operation, as RecordOp.Raw has one, that does nothing: a record of it alone keeps its number, and Ops doesn't yield it. It is log
// data of Pebble's, of one byte.
const NoOp = "\x03\x01n"

// JoinOps returns a batch of operations, given as their RecordOp.Raw, one behind the other.
func JoinOps(raw []byte) ([]byte, error) {
	batch, n := append(make([]byte, countBytes, countBytes+len(raw)), raw...), uint32(0)
	for op, err := range batchOps(batch) {
		if err != nil {
			return nil, err
		}
		if op.kind != pebble.InternalKeyKindLogData {
			n++
		}
	}
	binary.LittleEndian.PutUint32(batch, n)
	return batch, nil
}

// A batchOp is an operation of a batch: parts of it.
type batchOp struct {
	kind            pebble.InternalKeyKind
	key, value, raw []byte
}

// batchOps yields the operations of a batch as the log has it. The error is kv.ErrCorrupt.
func batchOps(batch []byte) iter.Seq2[batchOp, error] {
	return func(yield func(batchOp, error) bool) {
		if len(batch) < countBytes {
			yield(batchOp{}, errNoBatch)
			return
		}
		for b := batch[countBytes:]; len(b) > 0; {
			op, ok := firstOp(b)
			if !ok {
				yield(batchOp{}, errNoBatch)
				return
			}
			if !yield(op, nil) {
				return
			}
			b = b[len(op.raw):]
		}
	}
}

// firstOp returns the first operation of some, which is one of the kinds that stores write: a byte for its kind, its key, and the value of what has one.
// Pebble's own reader of batches (package batchrepr) trusts lengths: it panics at the end of the bytes, or reads what is behind them.
func firstOp(b []byte) (op batchOp, ok bool) {
	op.kind = pebble.InternalKeyKind(b[0])
	key, rest, ok := cutString(b[1:])
	switch op.kind {
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindLogData:
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindMerge, pebble.InternalKeyKindRangeDelete:
		if ok {
			op.value, rest, ok = cutString(rest)
		}
	default:
		ok = false
	}
	op.key, op.raw = key, b[:len(b)-len(rest)]
	return op, ok
}

// cutString returns the string with which b begins, of which the length is a varint, and what is behind it.
func cutString(b []byte) (s, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || size > binary.MaxVarintLen32 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(n)
	return b[size:end:end], b[end:], true
}

// errNoBatch says that a record has a good checksum, and isn't what Pebble calls a batch.
var errNoBatch = fmt.Errorf("%w: not a batch", kv.ErrCorrupt)
