package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
)

// TestApart: another Store writes to an actor while the Engine's has it for that alone, and not while the Engine's has it for something else.
func TestApart(t *testing.T) {
	r := newRig(t, engine.Options{})
	store, err := greenroom.New(t.Context(), r.kv, nil)
	must(t, err)
	defer func() { must(t, store.Close()) }()
	a, err := store.Actor(t.Context(), "room", nil)
	must(t, err)
	must(t, errors.Join(a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }), a.Close()))
	id, err := store.ID(t.Context(), "room")
	must(t, err)
	for range 2 {
		err := r.engine.Apart(t.Context(), id, func() error {
			within := r.engine.Apart(t.Context(), id, func() error { t.Error("it runs twice at once"); return nil })
			if !errors.Is(within, actorstore.ErrInUse) {
				t.Errorf("while the Engine has the actor: %v, want %v", within, actorstore.ErrInUse)
			}
			return store.Visit(t.Context(), id, func(ctx context.Context, a *greenroom.Actor) error {
				return a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte("v")) })
			})
		})
		must(t, err)
	}
	if err := r.engine.Apart(t.Context(), actorstore.NewID(), func() error { t.Error("it runs"); return nil }); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("of an actor that doesn't exist: %v", err)
	}
}
