package txn

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/greenroomdb/greenroom/internal/overlay"
	"github.com/greenroomdb/greenroom/kv"
)

// Get appends the value of key to dst, see Reader: the transaction's own, or that of
// its state, which then must not change before it commits. Further errors: ErrTooOld,
// ErrUnreadable, and ErrCanceled or ErrUsedAfterCommit when the transaction is over.
func (tx *Tx) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return tx.get(ctx, key, dst, true)
}

// Scan yields the entries of r, see Reader: the state of the transaction with what it
// wrote before the iteration began. How far the loop goes is what must not change
// before it commits. Errors are those of Get.
func (tx *Tx) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return tx.scan(ctx, r, true)
}

// GetKey appends the key that sel selects to dst, see Selector. Without such a key it returns kv.ErrNotFound, and dst unchanged. Every key from the one that it selects to the
// one that it is about counts as read, missing ones too.
func (tx *Tx) GetKey(ctx context.Context, sel Selector, dst []byte) ([]byte, error) {
	return tx.getKey(ctx, sel, dst, true)
}

// ScanSelectors yields the entries between two selected keys, see SelectorRange. What
// GetKey counts as read for the two, and Scan for what is between, counts.
func (tx *Tx) ScanSelectors(ctx context.Context, r SelectorRange) iter.Seq2[kv.Entry, error] {
	return tx.scanSelectors(ctx, r, true)
}

// Snapshot returns the reads of tx that don't count: the transaction commits whatever
// becomes of what they have seen. They see the same state, and the transaction's own
// writes.
func (tx *Tx) Snapshot() TxSnapshot { return TxSnapshot{tx} }

// A TxSnapshot is the reads of a transaction that can't make it conflict; see
// Tx.Snapshot. It implements Reader. (An engine without Exact may count them all the
// same.)
type TxSnapshot struct{ tx *Tx }

var (
	_ kv.Reader = (*Tx)(nil)
	_ kv.Reader = TxSnapshot{}
)

// Get is Tx.Get.
func (s TxSnapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return s.tx.get(ctx, key, dst, false)
}

// Scan is Tx.Scan.
func (s TxSnapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return s.tx.scan(ctx, r, false)
}

// GetKey is Tx.GetKey.
func (s TxSnapshot) GetKey(ctx context.Context, sel Selector, dst []byte) ([]byte, error) {
	return s.tx.getKey(ctx, sel, dst, false)
}

// ScanSelectors is Tx.ScanSelectors.
func (s TxSnapshot) ScanSelectors(ctx context.Context, r SelectorRange) iter.Seq2[kv.Entry, error] {
	return s.tx.scanSelectors(ctx, r, false)
}

func (tx *Tx) get(ctx context.Context, key, dst []byte, serial bool) ([]byte, error) {
	if err := tx.reading(ctx); err != nil {
		return dst, err
	}
	for _, u := range tx.unreadable {
		if bytes.Compare(key, u.Start) >= 0 && bytes.Compare(key, u.End) < 0 {
			return dst, ErrUnreadable
		}
	}
	p, known := tx.own.Get(key)
	switch {
	case !known:
	case p.Kind == overlay.Value:
		return append(dst, p.Value...), nil
	case p.Kind == overlay.Cleared:
		return dst, kv.ErrNotFound
	case p.Pending[0].Kind == OpStampValue:
		return dst, ErrUnreadable
	}
	out, err := tx.attempt.Get(ctx, key, dst)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return dst, err
	}
	if serial && !tx.readOnly {
		tx.sawKey(key)
	}
	exists := err == nil
	if known {
		var v []byte
		if v, exists = p.Pending.apply(out[len(dst):], exists); exists {
			out = append(out[:len(dst):len(dst)], v...)
		}
	}
	if !exists {
		return dst, kv.ErrNotFound
	}
	tx.bytesRead += int64(len(key) + len(out) - len(dst))
	return out, nil
}

// sawKey notes that the outcome of the transaction depends on key.
func (tx *Tx) sawKey(key []byte) {
	b := append(tx.room.copy(key), 0)
	tx.saw(b[:len(key)], b)
}
