package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
)

// A Watch waits for a change of one key: it knows the value that the key had in a
// transaction, and waits until it has another one.
type Watch struct {
	tx     *Tx
	key    []byte
	value  []byte
	exists bool
}

// Watch returns a Watch for the value that key has in the transaction, its own writes
// included. It is of use when the transaction has committed. Reading the value for it
// can't make the transaction conflict. Errors are those of Get, but a missing key is fine; an engine that can't is kv.ErrUnsupported.
func (tx *Tx) Watch(ctx context.Context, key []byte) (*Watch, error) {
	if !tx.db.tr.TxCaps().Has(Watching) {
		return nil, fmt.Errorf("txn: watch: %w", kv.ErrUnsupported)
	}
	v, err := tx.get(ctx, key, nil, false)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return nil, err
	}
	return &Watch{tx: tx, key: bytes.Clone(key), value: v, exists: err == nil}, nil
}

// Wait returns nil as soon as the key has a value other than the one it had in the
// transaction: at once when that is so already, so that no change is missed between
// the commit and the call. A change that is undone before it is looked at may go
// unnoticed. It returns the error of ctx when that ends first, ErrCanceled when the
// transaction didn't commit, and the engine's error when that can't be read any more.
//
// Wait holds something of the engine only while it runs. It may be called again, and by
// several goroutines, but not before Update, View or Commit has returned.
func (w *Watch) Wait(ctx context.Context) error {
	if w.tx.state != txCommitted || w.tx.failed {
		return ErrCanceled
	}
	changed, stop, err := w.tx.db.tr.Watch(w.key)
	if err != nil {
		return err
	}
	defer stop()
	var buf []byte
	for {
		// The look comes after the registration, and after every message: what
		// changes from now on sends another.
		buf, err = w.tx.db.eng.Get(ctx, w.key, buf[:0])
		switch {
		case errors.Is(err, kv.ErrNotFound):
			if w.exists {
				return nil
			}
		case err != nil:
			return err
		case !w.exists || !bytes.Equal(buf, w.value):
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
