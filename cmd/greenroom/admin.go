package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

// An adminServer is what lets the other commands into a store that this one has open.
type adminServer interface{ Close() error }

type noServer struct{}

func (noServer) Close() error { return nil }

// listenAdmin lets the other commands into a store in a directory, of whose actors some are awake in actors. The caller closes it before both.
func listenAdmin(ctx context.Context, s *storeurl.Store, url string, actors admin.Actors, log *slog.Logger) (adminServer, error) {
	dir, is, err := storeurl.Dir(url)
	if err != nil || !is {
		return noServer{}, err
	}
	return admin.Listen(ctx, dir, s.Store, &admin.Options{Actors: actors, Logger: log})
}

// do has a verb done to an actor: here, or by the process that has the store open.
func do[In, Out any](ctx context.Context, t target, v *admin.Verb[In, Out], in *In) (out *Out, err error) {
	err = own(ctx, t, func(a *greenroom.Actor) error {
		out, err = v.Do(ctx, a, t.actor, in)
		return err
	})
	if !errors.Is(err, kv.ErrStoreInUse) {
		return out, err
	}
	err = t.ask(ctx, err, func(c *admin.Client, _ *storeurl.Store, create bool) error {
		out, err = v.Ask(ctx, c, t.actor, create, in)
		return err
	})
	return out, err
}

// ask runs fn with a client of the process that has the store open, since opening it has failed with inUse, and with the store for reading.
// The actor is there, or create says that it may be made.
func (t *target) ask(ctx context.Context, inUse error, fn func(c *admin.Client, s *storeurl.Store, create bool) error) error {
	c, err := storeurl.Ask(ctx, t.url, inUse)
	if err != nil {
		return storeError(t.url, err)
	}
	defer c.Close()
	return withStore(ctx, t.url, greenroom.Options{ReadOnly: true}, func(s *storeurl.Store) error {
		err := s.View(ctx, t.actor, func(*greenroom.View) error { return nil })
		create := t.create && errors.Is(err, actorstore.ErrUnknownActor)
		if err != nil {
			err = actorError(ctx, s, t, err)
		}
		if create {
			err = t.mayMake(err)
		}
		if err == nil {
			err = fn(c, s, create)
		}
		if create && s.View(context.WithoutCancel(ctx), t.actor, func(*greenroom.View) error { return nil }) == nil {
			t.made("actor", t.actor)
		}
		return err
	})
}
