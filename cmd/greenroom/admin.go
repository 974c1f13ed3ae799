package main

import (
	"context"
	"errors"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/queue"
)

// do has a verb done to an actor: here, or by the process that has the store open.
func do[In, Out any](ctx context.Context, t target, v *admin.Verb[In, Out], in *In) (out *Out, err error) {
	err = own(ctx, t, func(a *greenroom.Actor) error {
		out, err = v.Do(ctx, a, t.actor, in)
		return invalid(err)
	})
	if !elsewhere(err) {
		return out, err
	}
	err = t.ask(ctx, err, func(c *admin.Client, _ *storeurl.Store, create bool) error {
		out, err = v.Ask(ctx, c, t.actor, create, in)
		return invalid(err)
	})
	return out, err
}

// doStore is do with a verb of the store. look, if it isn't nil, sees the actor before, and ends it with an error.
func doStore[In, Out any](ctx context.Context, t target, v *admin.StoreVerb[In, Out], in *In, look func(*greenroom.View) error) error {
	looked := look == nil
	see := func(s *storeurl.Store) error { // once: it may ask a person
		if looked {
			return viewIn(ctx, s, t, func(*greenroom.View) error { return nil })
		}
		err := viewIn(ctx, s, t, look)
		looked = err == nil
		return err
	}
	err := serving.WithStore(ctx, t.url, greenroom.Options{MustExist: true, Limits: t.limits}, func(s *storeurl.Store) error {
		err := see(s)
		if err == nil {
			if _, err = v.Do(ctx, admin.On{Store: s.Store}, t.actor, in); errors.Is(err, actorstore.ErrUnknownActor) || errors.Is(err, greenroom.ErrInUse) {
				err = actorError(ctx, s, &t, err)
			}
		}
		return invalid(err)
	})
	if !elsewhere(err) {
		return err
	}
	return t.ask(ctx, err, func(c *admin.Client, s *storeurl.Store, _ bool) error {
		err := see(s)
		if err == nil {
			_, err = v.Ask(ctx, c, t.actor, in)
		}
		return invalid(err)
	})
}

// doStoreIn is doStore in a store that is open here.
func doStoreIn[In, Out any](ctx context.Context, s *storeurl.Store, t target, v *admin.StoreVerb[In, Out], in *In) error {
	_, err := v.Do(ctx, admin.On{Store: s.Store}, t.actor, in)
	if !elsewhere(err) {
		return err
	}
	return t.ask(ctx, err, func(c *admin.Client, _ *storeurl.Store, _ bool) error {
		_, err := v.Ask(ctx, c, t.actor, in)
		return invalid(err)
	})
}

// invalid makes a usageError of an error that says that the request made no sense.
func invalid(err error) error {
	if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "invalid" {
		return serving.Usage(e.Message)
	}
	if errors.As(err, new(*queue.InvalidError)) { // the verb was done here
		return serving.Usage(strings.TrimPrefix(err.Error(), "queue: "))
	}
	return err
}

// dial returns a client of the process that has the store open, or the actor, since opening it has failed with inUse. The caller closes it.
func (t *target) dial(ctx context.Context, inUse error) (*admin.Client, error) {
	if in := (*actorstore.InUseError)(nil); errors.As(inUse, &in) {
		return asker{t.env}.dial(ctx, inUseBy(t.actor, &in.Host), &in.Host, inUse)
	}
	c, err := storeurl.Ask(ctx, t.url, inUse)
	return c, serving.StoreError(t.url, err)
}

// ask runs fn with a client of the process that has the store open, or the actor, since opening it has failed with inUse, and with the store for reading.
// The actor is there, or create says that it may be made.
func (t *target) ask(ctx context.Context, inUse error, fn func(c *admin.Client, s *storeurl.Store, create bool) error) error {
	c, err := t.dial(ctx, inUse)
	if err != nil {
		return err
	}
	defer c.Close()
	return serving.WithStore(ctx, t.url, greenroom.Options{ReadOnly: true}, func(s *storeurl.Store) error {
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
