package greenroom

import (
	"context"
	"errors"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/attributes"
)

// Actors yields the actors that opts selects, open or not; nil is all of them,
// in the order of their ids. It finds them by an index, so that it costs no more in a store that has many others. An error is yielded once, with a zero ActorInfo.
func (s *Store) Actors(ctx context.Context, opts *ActorsOptions) iter.Seq2[ActorInfo, error] {
	return s.lower.Actors(ctx, opts)
}

// ActorsOptions select actors; see actorstore.ActorsOptions.
type ActorsOptions = actorstore.ActorsOptions

// An ActorInfo is what the store has recorded about an actor; see actorstore.ActorInfo.
type ActorInfo = actorstore.ActorInfo

// Label sets a label of the actor, by which Store.Actors finds it, when the transaction lands; "" removes it. An actor
// has at most actorstore.MaxLabels labels. A label is for what actors are looked for by: what code decides by belongs in the actor's state.
//
// Errors: actorstore.ErrLabel, which Update may return too, for too many.
func (tx *Tx) Label(key, value string) error {
	if err := tx.check(); err != nil {
		return err
	}
	if err := actorstore.CheckLabel(key, value); err != nil {
		return err
	}
	tx.actor.actor.StageAttributes(tx.Batch(), func(at *actorstore.Attributes) error {
		if value == "" {
			delete(at.Labels, key)
			return nil
		}
		if at.Labels == nil {
			at.Labels = map[string]string{}
		}
		at.Labels[key] = value
		return nil
	})
	return nil
}

// BuildIndex completes the index by which Actors finds actors, of a store that an older version of this module has made: until then a search by
// anything but names is actorstore.ErrNotIndexed. In any other store it returns at once. It may be interrupted, and goes on where it ended. Actors may be
// in use meanwhile.
//
// Errors: ErrInUse, if another process has an actor open that isn't indexed yet; those of the engine.
func (s *Store) BuildIndex(ctx context.Context) error {
	return s.lower.BuildIndex(ctx, false, func(ctx context.Context, id actorstore.ID) error {
		_, err := s.repairAttributes(ctx, id)
		return err
	})
}

// RepairIndex gives every actor the attributes that follow from what it stores, and makes the index what those say. It returns how many actors, and how many rows of
// the index, were another way. What damage keeps from being read stays as it is; see actorstore.Store.Check. Errors are those of BuildIndex.
func (s *Store) RepairIndex(ctx context.Context) (actors, rows int, err error) {
	removed, written, err := s.lower.RepairIndex(ctx)
	if err != nil {
		return 0, removed + written, err
	}
	err = s.lower.BuildIndex(ctx, true, func(ctx context.Context, id actorstore.ID) error {
		repaired, err := s.repairAttributes(ctx, id)
		if repaired {
			actors++
		}
		return err
	})
	return actors, removed + written, err
}

// repairAttributes gives an actor the attributes that follow from what it stores, and says whether it had others. An actor that is gone, or that can't be
// read, is left as it is.
func (s *Store) repairAttributes(ctx context.Context, id actorstore.ID) (repaired bool, err error) {
	wrong := false
	v, err := s.lower.View(ctx, id)
	if err == nil {
		_, wrong, err = attributes.Wrong(ctx, v)
		err = errors.Join(err, v.Close())
	}
	if wrong && err == nil {
		err = s.Visit(ctx, id, func(ctx context.Context, a *Actor) error { return attributes.Repair(ctx, a.actor) })
		repaired = err == nil
	}
	for _, left := range []error{ErrNotFound, ErrCorrupt, ErrNewerFormat} {
		if errors.Is(err, left) {
			return false, nil
		}
	}
	return repaired, err
}
