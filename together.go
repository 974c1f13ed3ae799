package greenroom

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/opentx"
	"github.com/greenroomdb/greenroom/kv"
)

// MaxTogether is of how many actors one transaction is at most.
const MaxTogether = 16

// errTogether: the actors of a transaction are none or too many, are not different ones, or belong to another Store.
var errTogether = fmt.Errorf("greenroom: a transaction is of 1 to %d different actors of one store: %w", MaxTogether, kv.ErrInvalid)

// Update runs fn in one transaction of several actors of a store, and commits it when fn returns nil: what fn
// wrote to all of them lands by one commit of the engine, and nothing of it otherwise. txs are the
// transactions of the actors, in the order of actors; everything that one Tx does works in each. Else it is what
// Actor.Update is. In particular each actor stays as fn read it until the commit.
//
// Updates of these actors wait for its end. The actors are taken in the order of their
// ids, so calls of Update don't wait for each other in a circle, as long as fn doesn't wait for other actors.
//
// Other readers see all of it or nothing: each View is of one moment. The transaction must fit into one
// commit of the engine, with its pages: a larger one is batch.ErrTooLarge, and nothing of it is stored. Do it in
// parts then, each of which leaves the actors right.
//
// Errors: fn's; those of Actor.Update. If another owner took one of the actors over it is ErrFenced, and the others
// go on.
func Update(ctx context.Context, actors []*Actor, fn func(txs []*Tx) error) (err error) {
	t, err := beginTogether(ctx, actors)
	if err != nil {
		return err
	}
	err = errPanic // unless fn returns
	defer func() { err = t.end(err) }()
	if err = fn(t.txs); err != nil {
		return err
	}
	err = errPanic // unless the commit returns
	err = t.commit()
	return err
}

// A together is a transaction of several actors.
type together struct {
	open  []*openTx // in the order of the actors' ids
	txs   []*Tx     // in the caller's order
	joint *actorstore.Joint
	late  error // what failed behind the engine commit
}

// beginTogether takes the actors, in the order of their ids.
func beginTogether(ctx context.Context, actors []*Actor) (*together, error) {
	if len(actors) == 0 || len(actors) > MaxTogether {
		return nil, errTogether
	}
	order := slices.SortedFunc(slices.Values(actors), func(a, b *Actor) int { return a.actor.ID().Compare(b.actor.ID()) })
	for i, a := range order {
		if a.store != order[0].store || i > 0 && order[i-1] == a {
			return nil, errTogether
		}
	}
	t := &together{txs: make([]*Tx, len(actors))}
	t.joint = actorstore.NewJoint(len(actors), func(i int) error {
		err := t.open[i].commit()
		if t.joint.Over() {
			t.late = cmp.Or(err, t.late)
		}
		return err
	})
	for _, a := range order {
		o, err := a.begin(ctx, opentx.Options{Whole: true})
		if err == nil {
			t.open, t.txs[slices.Index(actors, a)] = append(t.open, o), &o.Tx
			o.Span, err = spanOf(ctx, a)
		}
		if err != nil {
			return nil, t.end(fmt.Errorf("greenroom: %s, for a transaction of %d actors: %w", a.Name(), len(actors), err))
		}
	}
	return t, nil
}

// commit lands the transaction: the commit of each actor's lies within that of the one before, and the last one makes the engine commit.
func (t *together) commit() error {
	for _, o := range t.open {
		t.joint.Join(&o.Tx.batch)
	}
	err := t.open[0].commit()
	if err == nil || t.joint.Over() {
		err = cmp.Or(err, t.late)
	}
	return err
}

// end gives up what isn't over, and ends the spans. It returns err, with what went wrong on the way.
func (t *together) end(err error) error {
	for _, o := range slices.Backward(t.open) {
		if !o.Tx.over.Load() {
			err = o.Rollback(err)
		}
	}
	for _, o := range t.open {
		endSpan(o.Span, err)
	}
	return err
}
