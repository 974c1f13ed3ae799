package queue

import (
	"errors"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// A keyed is a sender's key that is remembered.
type keyed struct {
	key   noteKey
	id    ID     // of the message that was sent with it; 0 while none is
	until int64  // Unix ms
	by    *Tx    // that is about to take or to forget it, nil for none
	value []byte // of the note, while it is about to be taken
	old   *keyed // that it replaces, while it is about to be taken
}

// A keyTable is the keys that are remembered. They lie in notes of the actor, one each.
type keyTable struct {
	known map[noteKey]*keyed
	// ends has the known keys in the order in which they were stored, which is that of
	// their ends but for clocks that are set: a key that ends late may hold up others.
	ends       []*keyed
	forgetting int // known ones whose notes are about to be removed
}

func (t *keyTable) init() { t.known = map[noteKey]*keyed{} }

// sooner has the keys end sooner by back, in ms, if that is positive.
func (t *keyTable) sooner(back int64) {
	if back <= 0 {
		return
	}
	for _, k := range t.known {
		k.until = sooner(k.until, back)
		if k.old != nil {
			k.old.until = sooner(k.old.until, back)
		}
	}
}

// sweepKeys is how many keys that are over are removed beside each one that is taken:
// more than one, so that they don't gather.
const sweepKeys = 4

// A busyKey says that a batch that isn't settled has the key. It wraps ErrBusy.
type busyKey struct{ settled <-chan struct{} }

// Error is that of ErrBusy.
func (b *busyKey) Error() string { return ErrBusy.Error() + ": the key" }

// Unwrap returns ErrBusy.
func (b *busyKey) Unwrap() error { return ErrBusy }

// key looks a key up: the keyed that is returned has an id if the key is in use, and is
// new if it isn't.
//
// +checklocks:tx.q.mu
func (tx *Tx) key(n noteKey) (*keyed, error) {
	t, now := &tx.q.keys, tx.q.millis() // a time from before q.mu was locked would be a clock that was set back
	t.sooner(tx.q.index.observe(now))
	k := t.known[n]
	switch {
	case k == nil:
	case k.by != nil && k.by != tx:
		return nil, &busyKey{settledChan(k.by)}
	case k.until > now || k.value != nil:
		return k, nil
	}
	tx.sweep(now)
	if k == nil && len(t.known)-t.forgetting >= tx.q.opts.MaxKeys {
		return nil, ErrKeysFull
	}
	return &keyed{key: n}, nil
}

// sweep stages that some keys that are over are forgotten.
//
// +checklocks:tx.q.mu
func (tx *Tx) sweep(now int64) {
	t := &tx.q.keys
	for range sweepKeys {
		for len(t.ends) > 0 && t.known[t.ends[0].key] != t.ends[0] {
			t.ends = t.ends[1:] // it was taken anew
		}
		if len(t.ends) == 0 || t.ends[0].until > now || t.ends[0].by != nil {
			return
		}
		k := t.ends[0]
		t.ends = t.ends[1:]
		k.by = tx
		tx.forget = append(tx.forget, k)
		t.forgetting++
	}
}

// take has tx remember a key. One that was over is replaced.
//
// +checklocks:tx.q.mu
func (tx *Tx) take(k *keyed, id ID, until int64) {
	t := &tx.q.keys
	if old := t.known[k.key]; old != nil && old.by == tx {
		// It was about to be forgotten: now the note is written anew.
		tx.forget = slices.DeleteFunc(tx.forget, func(o *keyed) bool { return o == old })
		t.forgetting--
		old.by = nil
	}
	k.id, k.until, k.by, k.old = id, until, tx, t.known[k.key]
	k.value = appendNote(nil, id, until)
	t.known[k.key] = k
	tx.keys = append(tx.keys, k)
}

// lateKeys stages the notes.
func (tx *Tx) lateKeys(b *batch.Batch) error {
	var errs []error
	for _, k := range tx.forget {
		errs = append(errs, tx.q.actor.StageNote(b, k.key[:], nil))
	}
	for _, k := range tx.keys {
		errs = append(errs, tx.q.actor.StageNote(b, k.key[:], k.value))
	}
	return errors.Join(errs...)
}

// +checklocks:tx.q.mu
func (tx *Tx) commitKeys() {
	t := &tx.q.keys
	for _, k := range tx.forget {
		delete(t.known, k.key)
	}
	t.forgetting -= len(tx.forget)
	for _, k := range tx.keys {
		k.by, k.value, k.old = nil, nil, nil
		t.ends = append(t.ends, k)
	}
}

// abortKeys undoes take and sweep.
//
// +checklocks:tx.q.mu
func (tx *Tx) abortKeys() {
	t := &tx.q.keys
	over := slices.Clone(tx.forget)
	for _, k := range tx.keys {
		if k.old == nil {
			delete(t.known, k.key)
			continue
		}
		t.known[k.key] = k.old
		over = append(over, k.old) // a second place among the ends does no harm
	}
	for _, k := range tx.forget {
		k.by = nil
	}
	t.forgetting -= len(tx.forget)
	t.ends = append(over, t.ends...)
}
