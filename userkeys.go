package greenroom

import (
	"bytes"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/overlay"
)

// keys is what a transaction has written to the actor's user keys, as they are stored:
// behind the byte of their namespace.
type keys struct {
	written overlay.Map[struct{}]
	at      time.Time // of the first write
}

// Get returns the value of key, which the caller may change; a key that is not there is
// ErrNotFound.
func (tx *Tx) Get(key []byte) ([]byte, error) {
	if err := tx.check(); err != nil {
		return nil, err
	}
	if p, ok := tx.keys.written.Get(actorstore.UserKey(key)); ok {
		if p.Kind == overlay.Cleared {
			return nil, actorstore.ErrNotFound
		}
		return append([]byte{}, p.Value...), nil
	}
	return tx.actor.actor.User().Get(tx.ctx, key, []byte{})
}

// Put stores value under key. It keeps neither.
func (tx *Tx) Put(key, value []byte) error {
	if err := writes(tx); err != nil {
		return err
	}
	stored := actorstore.UserKey(key)
	v := append([]byte{}, value...)
	tx.batch.Put(stored, v)
	tx.keys.written.Set(stored, v)
	return nil
}

// Delete removes key; a key that isn't there is fine.
func (tx *Tx) Delete(key []byte) error {
	if err := writes(tx); err != nil {
		return err
	}
	stored := actorstore.UserKey(key)
	tx.batch.Delete(stored)
	tx.keys.written.Clear(stored)
	return nil
}

// DeleteRange removes the keys in [start, end); a nil end means all from start on.
func (tx *Tx) DeleteRange(start, end []byte) error {
	if err := writes(tx); err != nil {
		return err
	}
	from := actorstore.UserKey(start)
	_, to := actorstore.LayoutGreenroom.Range(actorstore.NamespaceUser) // as in any layout
	if end != nil {
		to = actorstore.UserKey(end)
	}
	if bytes.Compare(from, to) >= 0 {
		return nil
	}
	tx.batch.DeleteRange(from, to)
	tx.keys.written.ClearRange(from, to)
	return nil
}

// writes notes that a transaction writes keys, and returns why it may not.
func writes(tx *Tx) error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.keys.at.IsZero() {
		if err := ofProgram(tx.ctx, tx.actor.actor); err != nil {
			return err
		}
		tx.keys.at = tx.actor.clock.Now()
	}
	tx.wrote = true
	return nil
}

// List yields the entries that opts select, in the order of their keys. Keys and values
// must not be changed, and are valid until the next iteration. What is written while the
// loop runs is not seen by it. An error is yielded once, with a zero Entry.
func (tx *Tx) List(opts ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := tx.check(); err != nil {
			yield(Entry{}, err)
			return
		}
		limit, n := opts.Limit, 0
		opts = stored(opts)
		entries := tx.actor.actor.List(tx.ctx, opts)
		if !tx.keys.written.Empty() {
			entries = tx.keys.over(tx, opts)
		}
		for e, err := range entries {
			if err == nil {
				e.Key = e.Key[1:]
			}
			if !yield(e, err) || err != nil {
				return
			}
			if n++; n == limit {
				return
			}
		}
	}
}

// over yields what is stored with what the transaction has made of it.
func (k *keys) over(tx *Tx, opts ListOptions) iter.Seq2[Entry, error] {
	opts.Limit = 0 // some of those that are stored are gone
	written := k.written.Freeze()
	return func(yield func(Entry, error) bool) {
		own := written.Cursor(opts.Start, opts.End, opts.Reverse)
		// put yields what was written before key, in the order of the list; nil is behind all.
		put := func(key []byte) bool {
			for ; own.Valid(); own.Next() {
				p := own.Point()
				if c := bytes.Compare(p.Key, key); key != nil && (c > 0) != opts.Reverse && c != 0 {
					return true
				}
				if p.Kind != overlay.Value {
					continue
				}
				e := Entry{Key: p.Key, Size: len(p.Value), Updated: k.at}
				if !opts.KeysOnly {
					e.Value = p.Value
				}
				if !yield(e, nil) {
					return false
				}
			}
			return true
		}
		for e, err := range tx.actor.actor.List(tx.ctx, opts) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !put(e.Key) {
				return
			}
			if _, ok := written.Get(e.Key); !ok && !yield(e, nil) {
				return
			}
		}
		put(nil)
	}
}

// stored returns opts for keys as they are stored, with one range in the place of bounds
// and prefix.
func stored(opts ListOptions) ListOptions {
	start, end := actorstore.UserKey(opts.Prefix), following(actorstore.UserKey(opts.Prefix))
	if from := actorstore.UserKey(opts.Start); bytes.Compare(start, from) < 0 {
		start = from
	}
	if opts.End != nil {
		if to := actorstore.UserKey(opts.End); bytes.Compare(to, end) < 0 {
			end = to
		}
	}
	opts.Start, opts.End, opts.Prefix = start, end, nil
	return opts
}

// following returns the first key behind those that begin with prefix, of which the first
// byte is not 0xff.
func following(prefix []byte) []byte {
	next := bytes.TrimRight(prefix, "\xff")
	next = bytes.Clone(next)
	next[len(next)-1]++
	return next
}
