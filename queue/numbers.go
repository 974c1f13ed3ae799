package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// numbers give messages their ids, and know what is stored of that: the metadata. The lock of contents guards them.
type numbers struct {
	meta    metadata    // as stored: ids below next are taken
	rebuilt bool        // what is stored of them is missing or wrong
	prior   batch.Prior // of the metadata's value
	landing metadata    // as the commit that is under way leaves them
	next    ID          // the next id to reserve
	shown   ID          // above all that others were told of
}

// load compares the metadata that are stored with what was found. They are never believed when
// the messages say otherwise: an id that is given twice overwrites a message. Nor are they
// when they say that there are no ids left of more than anybody can have given.
func (n *numbers) load(ctx context.Context, in *settings, r actorstore.Reader, found metadata) error {
	value, err := r.Get(ctx, metadataKey(r.Layout()), nil)
	var stored metadata
	n.prior = batch.Absent
	if err == nil {
		n.prior = batch.Stored(len(value))
		if stored, err = parseMetadata(value); err == nil && stored.next > lastID+1 {
			err = fmt.Errorf("%w: the next id is %s", actorstore.ErrCorrupt, stored.next)
		}
	}
	n.meta, n.rebuilt = found, true
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		n.rebuilt = found.size > 0
	case err != nil && !damaged(err):
		return err
	case err == nil:
		n.meta.next = max(found.next, stored.next)
		n.rebuilt = n.meta != stored
	}
	if n.next = n.meta.next; n.rebuilt {
		in.log.Warn("queue: metadata are missing or wrong, and were made anew from the messages",
			"actor_id", in.actor.ID(), "stored", stored.next, "next", n.meta.next, "size", n.meta.size, "err", err)
	}
	return nil
}

// take reserves an id. If show is set, a caller learns it before a commit.
func (n *numbers) take(show bool) (ID, error) {
	if n.next > lastID {
		return 0, ErrNoIDs
	}
	id := n.next
	n.next++
	if show {
		n.shown = n.next
	}
	return id, nil
}

// begin says that a commit is under way.
func (n *numbers) begin() { n.landing = n.meta }

// stage stages that the metadata are m. The batch keeps buf, which becomes their value.
func (n *numbers) stage(b *batch.Batch, key []byte, m metadata, buf []byte) {
	if m == n.landing && !n.rebuilt {
		return
	}
	n.landing = m
	b.PutPrior(key, m.append(buf), n.prior)
}

// landed makes the metadata those of the commit that was under way.
func (n *numbers) landed() {
	if n.landing != n.meta || n.rebuilt {
		n.meta, n.prior, n.rebuilt = n.landing, batch.Stored(metadataSize), false
	}
}
