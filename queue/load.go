package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A Quarantined is a stored message that can't be read, a key among the messages that
// isn't a message's, or a message that was handed out often enough and for which no commit has room as
// a dead letter. It stays where it is, out of the way, until it is deleted or discarded;
// when the queue is opened again, what it is is found out anew.
type Quarantined struct {
	ID   ID     // 0 when the key isn't a message's
	Key  []byte // of the actor
	Size int    // of the value in bytes, 0 when that isn't known
	Err  error  // what is wrong with it; often wraps actorstore.ErrCorrupt or actorstore.ErrNewerFormat
}

// Quarantined returns what is set aside, in the order in which it was found.
func (q *Queue) Quarantined() []Quarantined {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.bad)
}

// quarantine sets a message aside.
//
// +checklocks:q.mu
func (q *Queue) quarantine(bad Quarantined) {
	q.bad = append(q.bad, bad)
	q.meter.Count(metricQuarantined, 1)
	q.log.Warn("queue: a stored message is set aside", "actor", q.actor.ID(),
		"key", actorstore.Describe(bad.Key), "err", bad.Err)
}

// putAside puts a message that is in no order among the quarantined ones. It can't be
// completed, so those that wait for it are told.
//
// +checklocks:q.mu
func (q *Queue) putAside(it *item, err error) {
	q.index.leave(it)
	q.answer(it.id, answer{err: fmt.Errorf("%w: %w", ErrNoAnswer, err)})
	q.quarantine(Quarantined{ID: it.id, Key: appendMessageKey(q.actor.Layout(), nil, it.id), Size: it.size, Err: err})
}

// removeBad stages that what is quarantined under a key is removed. What is there is read by the
// store: nothing is known about it.
//
// +checklocks:tx.q.mu
func (tx *Tx) removeBad(key []byte) error {
	q := tx.q
	i := slices.IndexFunc(q.bad, func(b Quarantined) bool { return bytes.Equal(b.Key, key) })
	if i < 0 {
		return ErrGone
	}
	tx.bad = append(tx.bad, q.bad[i])
	q.bad = slices.Delete(slices.Clone(q.bad), i, i+1)
	return nil
}

// load reads what is stored, all of one state.
func (q *Queue) load(ctx context.Context) (err error) {
	snap, err := q.actor.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index.seen = q.millis()
	if err := q.loadKeys(ctx, snap); err != nil {
		return err
	}
	found := metadata{next: 1}
	for _, k := range q.keys.known {
		found.taken(k.id)
	}
	for e, err := range entries(ctx, snap, nil) {
		if err != nil {
			return err
		}
		found.size++
		id, ok := parseMessageKey(snap.Layout(), e.key)
		if !ok {
			q.quarantine(Quarantined{Key: e.key, Size: len(e.value), Err: fmt.Errorf("%w: the key is no message's", actorstore.ErrCorrupt)})
			continue
		}
		found.taken(id)
		q.loadMessage(id, e)
	}
	return q.loadMetadata(ctx, snap, found)
}

// loadMessage puts a message into the index.
//
// +checklocks:q.mu
func (q *Queue) loadMessage(id ID, e entry) {
	var r record
	err := e.err
	if err == nil {
		r, err = parseRecord(e.value)
	}
	if err != nil {
		q.quarantine(Quarantined{id, e.key, len(e.value), err})
		return
	}
	it := &item{id: id, created: r.created, size: len(e.value), rec: e.value, lease: r.lease(q.visibility())}
	began := r.created
	if r.inFlight.value && r.since.set {
		began = r.since.value
	}
	it.at = sooner(it.at, began-q.index.seen) // the clock may have been set back
	q.index.enter(it, r.name)
	q.put(it)
}

// loadMetadata compares the metadata with what was found. They are never believed when
// the messages say otherwise: an id that is given twice overwrites a message. Nor are they
// when they say that there are no ids left of more than anybody can have given.
//
// +checklocks:q.mu
func (q *Queue) loadMetadata(ctx context.Context, r actorstore.Reader, found metadata) error {
	value, err := r.Get(ctx, metadataKey(r.Layout()), nil)
	var stored metadata
	q.prior = batch.Absent
	if err == nil {
		q.prior = batch.Stored(len(value))
		if stored, err = parseMetadata(value); err == nil && stored.next > lastID+1 {
			err = fmt.Errorf("%w: the next id is %s", actorstore.ErrCorrupt, stored.next)
		}
	}
	q.meta, q.rebuilt = found, true
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		q.rebuilt = found.size > 0
	case err != nil && !damaged(err):
		return err
	case err == nil:
		q.meta.next = max(found.next, stored.next)
		q.rebuilt = q.meta != stored
	}
	if q.next = q.meta.next; q.rebuilt {
		q.log.Warn("queue: metadata are missing or wrong, and were made anew from the messages",
			"actor", q.actor.ID(), "stored", stored.next, "next", q.meta.next, "size", q.meta.size, "err", err)
	}
	return nil
}

// loadKeys reads the senders' keys. A note that can't be read is forgotten: the worst is
// that a message is sent twice.
//
// +checklocks:q.mu
func (q *Queue) loadKeys(ctx context.Context, snap *actorstore.Snapshot) error {
	t := &q.keys
	for n, err := range snap.Notes(ctx, []byte{actorstore.NamespaceQueue}) {
		if err != nil {
			return err
		}
		id, until, err := parseNote(n.Value)
		if err != nil || len(n.Key) != len(noteKey{}) {
			q.log.Warn("queue: a sender's key can't be read", "actor", q.actor.ID(), "note", n.Key, "err", err)
			continue
		}
		until = min(until, after(q.index.seen, q.opts.KeyWindow)) // more is left only if the clock was set back
		k := &keyed{key: noteKey(n.Key), id: id, until: until}
		t.known[k.key] = k
		t.ends = append(t.ends, k)
	}
	slices.SortStableFunc(t.ends, func(a, b *keyed) int { return cmp.Compare(a.until, b.until) })
	return nil
}
