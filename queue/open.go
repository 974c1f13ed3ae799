package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// Open reads the queue of an actor; nil opts are the zero Options. It writes nothing.
// There can be one Queue of an actor at a time: another is actorstore.ErrKept. It must be
// closed before the actor is.
//
// The queue's metadata are rebuilt in memory if they are missing, damaged, or behind the
// messages: an id is never given twice, and they are stored right with the next commit.
// Messages that can't be read are left where they are: see Quarantined.
func Open(ctx context.Context, a *actorstore.Actor, opts *Options) (*Queue, error) {
	q := &Queue{
		settings: settings{actor: a}, closing: make(chan struct{}),
		answers: answers{}, waiters: listeners{},
	}
	if opts != nil {
		q.opts = *opts
	}
	if err := q.settings.init(); err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	free, err := a.Keep(actorstore.NamespaceQueue)
	if err != nil {
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.free = free
	q.index.init(q.opts.MemoryBytes)
	q.keys.init()
	if err := q.load(ctx); err != nil {
		free()
		return nil, fmt.Errorf("queue: open: %w", err)
	}
	q.ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	q.source = q.clock.Lasting("queue", q.ring)
	q.arm()
	return q, nil
}

// Close ends the queue, not the actor. A call that waits for a message or an answer
// gets ErrClosed, and what is staged can't be committed any more; Close waits for commits of it
// that are under way. What is stored and due later goes on counting in Options.Clock, so
// that the program that puts the actor to sleep knows when it must be awake. A second Close returns
// when the first is over. Participants of a batch must not call it.
func (q *Queue) Close() error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.closing)
	}
	q.mu.Unlock()
	q.cancel()
	_ = q.works.Close(context.Background()) // which doesn't give up
	q.end.Do(func() {
		q.arm()
		q.source.Close()
		if q.ownClock {
			q.clock.Close()
		}
		q.free()
	})
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
