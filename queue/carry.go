package queue

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// NextID returns the id that the next message would have got, of the value of a queue's metadata. The error is ErrCorrupt or ErrNewerFormat.
func NextID(metadata []byte) (ID, error) {
	m, err := parseMetadata(metadata)
	return min(m.next, lastID+1), err
}

// CarryIDs has a queue that gets the messages of from, an earlier state of its actor, go on with the ids that it has given by now, which now shows, and
// not below least: an id is never given twice. Both are of the same layout. It stages the queue's metadata with b, with which the messages land; without a
// queue in either it stages nothing. Errors are those of reading.
func CarryIDs(ctx context.Context, now, from actorstore.Reader, least ID, b *batch.Batch) error {
	given, has, err := totals(ctx, now)
	if err != nil {
		return err
	}
	m, had, err := totals(ctx, from)
	if err != nil || !has && !had {
		return err
	}
	m.next = max(m.next, given.next, least)
	key, prior := metadataKey(now.Layout()), batch.Absent
	value, err := now.Get(ctx, key, nil)
	switch {
	case err == nil:
		prior = batch.Stored(len(value))
	case !errors.Is(err, actorstore.ErrNotFound):
		return err
	}
	b.PutPrior(key, m.append(nil), prior)
	return nil
}

// totals returns the metadata that follow from the messages of a state, and from its metadata if these can be read. has says whether there is a queue.
func totals(ctx context.Context, r actorstore.Reader) (m metadata, has bool, err error) {
	m.next = 1
	start, end := r.Layout().Range(actorstore.NamespaceQueue)
	for e, err := range r.List(ctx, actorstore.ListOptions{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return m, has, err
		}
		if id, ok := parseMessageKey(r.Layout(), e.Key); ok {
			m.taken(id)
		}
		m.size++
		has = true
	}
	value, err := r.Get(ctx, metadataKey(r.Layout()), nil)
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		return m, has, nil
	case err != nil:
		return m, has, err
	}
	if stored, err := parseMetadata(value); err == nil && stored.next <= lastID+1 { // else the messages say it
		m.next = max(m.next, stored.next)
	}
	return m, true, nil
}
