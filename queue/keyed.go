package queue

import (
	"errors"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// A keyed is a sender's key that is remembered.
type keyed struct {
	key   noteKey
	id    ID       // of the message that was sent with it; 0 while none is
	until int64    // Unix ms
	by    *staging // that is about to take or to forget it, nil for none
	value []byte   // of the note, while it is about to be taken
	old   *keyed   // that it replaces, while it is about to be taken
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
// +checklocks:st.q.mu
func (st *staging) key(n noteKey, now int64) (*keyed, error) {
	t := &st.q.keys
	k := t.known[n]
	switch {
	case k == nil:
	case k.by != nil && k.by != st:
		return nil, &busyKey{k.by.done()}
	case k.until > now || k.value != nil:
		return k, nil
	}
	st.sweep(now)
	if k == nil && len(t.known)-t.forgetting >= st.q.opts.MaxKeys {
		return nil, ErrKeysFull
	}
	return &keyed{key: n}, nil
}

// sweep stages that some keys that are over are forgotten.
//
// +checklocks:st.q.mu
func (st *staging) sweep(now int64) {
	t := &st.q.keys
	for range sweepKeys {
		for len(t.ends) > 0 && t.known[t.ends[0].key] != t.ends[0] {
			t.ends = t.ends[1:] // it was taken anew
		}
		if len(t.ends) == 0 || t.ends[0].until > now || t.ends[0].by != nil {
			return
		}
		k := t.ends[0]
		t.ends = t.ends[1:]
		k.by = st
		st.forget = append(st.forget, k)
		t.forgetting++
	}
}

// take has st remember a key. One that was over is replaced.
//
// +checklocks:st.q.mu
func (st *staging) take(k *keyed, id ID, until int64) {
	t := &st.q.keys
	if old := t.known[k.key]; old != nil && old.by == st {
		// It was about to be forgotten: now the note is written anew.
		st.forget = slices.DeleteFunc(st.forget, func(o *keyed) bool { return o == old })
		t.forgetting--
		old.by = nil
	}
	k.id, k.until, k.by, k.old = id, until, st, t.known[k.key]
	k.value = appendNote(nil, id, until)
	t.known[k.key] = k
	st.keys = append(st.keys, k)
}

// lateKeys stages the notes.
func (st *staging) lateKeys(b *batch.Batch) error {
	var errs []error
	for _, k := range st.forget {
		errs = append(errs, st.q.actor.StageNote(b, k.key[:], nil))
	}
	for _, k := range st.keys {
		errs = append(errs, st.q.actor.StageNote(b, k.key[:], k.value))
	}
	return errors.Join(errs...)
}

// +checklocks:st.q.mu
func (st *staging) commitKeys() {
	t := &st.q.keys
	for _, k := range st.forget {
		delete(t.known, k.key)
	}
	t.forgetting -= len(st.forget)
	for _, k := range st.keys {
		k.by, k.value, k.old = nil, nil, nil
		t.ends = append(t.ends, k)
	}
}

// abortKeys undoes take and sweep.
//
// +checklocks:st.q.mu
func (st *staging) abortKeys() {
	t := &st.q.keys
	over := slices.Clone(st.forget)
	for _, k := range st.keys {
		if k.old == nil {
			delete(t.known, k.key)
			continue
		}
		t.known[k.key] = k.old
		over = append(over, k.old) // a second place among the ends does no harm
	}
	for _, k := range st.forget {
		k.by = nil
	}
	t.forgetting -= len(st.forget)
	t.ends = append(over, t.ends...)
}
