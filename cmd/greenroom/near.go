package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// actorError says what is wrong with the actor that was named, of a store that is open.
func actorError(ctx context.Context, s *storeurl.Store, t *target, err error) error {
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return say(err, "there is no actor %s in %s%s", t.actor, storeurl.Display(t.url), nearActors(ctx, s, t.actor))
	}
	return nameError(t.actor, err)
}

// nameError says what is wrong with the name of an actor.
func nameError(actor string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, actorstore.ErrID):
		return serving.Usage(fmt.Sprintf("%s is not the id of an actor: an id is 30 letters and digits, as ls shows it", actor))
	case errors.Is(err, actorstore.ErrName):
		return serving.Usage(strings.TrimPrefix(err.Error(), "actorstore: "))
	}
	return fmt.Errorf("actor %s: %w", actor, err)
}

// nearActors is didYouMean for an actor of a store. A store that can't be listed has none.
func nearActors(ctx context.Context, s *storeurl.Store, actor string) string {
	var names []string
	for info, err := range s.Actors(ctx, &greenroom.ActorsOptions{Order: actorstore.OrderName, Limit: serving.MaxCompared}) {
		if err != nil {
			return ""
		}
		names = append(names, info.Name)
	}
	return serving.DidYouMean(actor, names)
}
