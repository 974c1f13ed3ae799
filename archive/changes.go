package archive

import (
	"context"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// Changes yields what was committed of an actor behind the state after, up to that of until, which is of the same lineage and not before: records
// with those operations alone that may be of the actor, in order. A record without any isn't yielded. What is yielded is valid until the next one.
//
// Errors: ErrBookmark; ErrNoState, if they are of two lineages, or not in this order, or not kept any more; kv.ErrCorrupt with the name of the object; those
// of the bucket. An error ends the sequence.
func (a *Archive) Changes(ctx context.Context, id actorstore.ID, after, until Bookmark) iter.Seq2[pebblekv.Record, error] {
	return func(yield func(pebblekv.Record, error) bool) {
		var p *plan
		err := again(func() (err error) {
			p, err = a.between(ctx, after, until)
			return err
		})
		if err != nil {
			yield(pebblekv.Record{}, err)
			return
		}
		for r, err := range p.records(ctx, a.bucket, []group{wide, ofActor(id)}) {
			if err == nil && r.Number <= after.Number {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// between returns how the records between two states are read.
func (a *Archive) between(ctx context.Context, after, until Bookmark) (*plan, error) {
	if after.Archive != until.Archive || after.Line != until.Line || after.Number > until.Number {
		return nil, fmt.Errorf("%w: %s does not lead to %s", ErrNoState, after, until)
	}
	p, err := a.plan(ctx, after) // with a base that isn't behind it
	if err != nil {
		return nil, err
	}
	return p, p.reach(ctx, a.bucket, until)
}
