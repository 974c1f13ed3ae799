package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A keyed is a sender's key that is remembered.
type keyed struct {
	key   noteKey
	id    ID         // of the message that was sent with it; 0 while none is
	until int64      // Unix ms
	by    *keyClaims // of the batch that is about to take or to forget it, nil for none
	value []byte     // of the note, while it is about to be taken
	old   *keyed     // that it replaces, while it is about to be taken
}

// A keyTable is the keys that are remembered. They lie in notes of the actor, one each. The queue's lock guards it, and the
// keyClaims of all batches.
type keyTable struct {
	known map[noteKey]*keyed
	// ends has the known keys in the order in which they were stored, which is that of
	// their ends but for clocks that are set: a key that ends late may hold up others.
	ends       []*keyed
	forgetting int // known ones whose notes are about to be removed
}

// load reads the senders' keys. A note that can't be read is forgotten: the worst is
// that a message is sent twice.
func (t *keyTable) load(ctx context.Context, in *settings, snap *actorstore.Snapshot, now int64) error {
	for n, err := range snap.Notes(ctx, []byte{actorstore.NamespaceQueue}) {
		if err != nil {
			return err
		}
		id, until, err := parseNote(n.Value)
		if err != nil || len(n.Key) != len(noteKey{}) {
			in.log.Warn("queue: a sender's key can't be read", "actor_id", in.actor.ID(), "note", n.Key, "err", err)
			continue
		}
		until = min(until, after(now, in.opts.KeyWindow)) // more is left only if the clock was set back
		k := &keyed{key: noteKey(n.Key), id: id, until: until}
		t.known[k.key] = k
		t.ends = append(t.ends, k)
	}
	slices.SortStableFunc(t.ends, func(a, b *keyed) int { return cmp.Compare(a.until, b.until) })
	return nil
}

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

// keyClaims are what one batch is about to do with senders' keys.
type keyClaims struct {
	taken     []*keyed
	forgotten []*keyed      // that are over
	settled   chan struct{} // closed when the batch is settled; nil while no call waits
}

// find looks a key up for a batch: the keyed that is returned has an id if the key is in use, and is
// new if it isn't. A new one is ErrKeysFull if most are remembered.
func (t *keyTable) find(c *keyClaims, n noteKey, now int64, most int) (*keyed, error) {
	k := t.known[n]
	switch {
	case k == nil:
	case k.by != nil && k.by != c:
		return nil, &busyKey{k.by.wait()}
	case k.until > now || k.value != nil:
		return k, nil
	}
	t.sweep(c, now)
	if k == nil && len(t.known)-t.forgetting >= most {
		return nil, ErrKeysFull
	}
	return &keyed{key: n}, nil
}

// sweep makes a batch forget some keys that are over.
func (t *keyTable) sweep(c *keyClaims, now int64) {
	for range sweepKeys {
		for len(t.ends) > 0 && t.known[t.ends[0].key] != t.ends[0] {
			t.ends = t.ends[1:] // it was taken anew
		}
		if len(t.ends) == 0 || t.ends[0].until > now || t.ends[0].by != nil {
			return
		}
		k := t.ends[0]
		t.ends = t.ends[1:]
		k.by = c
		c.forgotten = append(c.forgotten, k)
		t.forgetting++
	}
}

// take makes a batch remember a key. One that was over is replaced.
func (t *keyTable) take(c *keyClaims, k *keyed, id ID, until int64) {
	if old := t.known[k.key]; old != nil && old.by == c {
		// It was about to be forgotten: now the note is written anew.
		c.forgotten = slices.DeleteFunc(c.forgotten, func(o *keyed) bool { return o == old })
		t.forgetting--
		old.by = nil
	}
	k.id, k.until, k.by, k.old = id, until, c, t.known[k.key]
	k.value = appendNote(nil, id, until)
	t.known[k.key] = k
	c.taken = append(c.taken, k)
}

// commit makes the table follow the store, in which what a batch did has landed.
func (t *keyTable) commit(c *keyClaims) {
	for _, k := range c.forgotten {
		delete(t.known, k.key)
	}
	t.forgetting -= len(c.forgotten)
	for _, k := range c.taken {
		k.by, k.value, k.old = nil, nil, nil
		t.ends = append(t.ends, k)
	}
}

// abort undoes take and sweep of a batch.
func (t *keyTable) abort(c *keyClaims) {
	over := slices.Clone(c.forgotten)
	for _, k := range c.taken {
		if k.old == nil {
			delete(t.known, k.key)
			continue
		}
		t.known[k.key] = k.old
		over = append(over, k.old) // a second place among the ends does no harm
	}
	for _, k := range c.forgotten {
		k.by = nil
	}
	t.forgetting -= len(c.forgotten)
	t.ends = append(over, t.ends...)
}

// wait returns a channel that is closed by end.
func (c *keyClaims) wait() <-chan struct{} {
	if c.settled == nil {
		c.settled = make(chan struct{})
	}
	return c.settled
}

// end tells the calls that wait that the batch is settled.
func (c *keyClaims) end() {
	if c.settled != nil {
		close(c.settled)
	}
}

// stage stages the notes.
func (c *keyClaims) stage(b *batch.Batch, a *actorstore.Actor) error {
	var errs []error
	for _, k := range c.forgotten {
		errs = append(errs, a.StageNote(b, k.key[:], nil))
	}
	for _, k := range c.taken {
		errs = append(errs, a.StageNote(b, k.key[:], k.value))
	}
	return errors.Join(errs...)
}
