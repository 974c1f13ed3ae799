package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/attributes"
)

// Fork copies an actor to a new one of the same store; see greenroom.Store.Fork.
var Fork = quiet("fork", "Make a new actor with all that the actor has.", fork)

// ForkIn is the request of Fork.
type ForkIn struct {
	To   string `json:"to"`             // the name of the new actor, or id: and the text of its id
	Wake bool   `json:"wake,omitempty"` // it is woken at once, where a host runs it; else it sleeps until it is called
	// Progress, where the store is open in this process, is told how many bytes were copied.
	Progress func(used int64) `json:"-"`
}

func fork(ctx context.Context, on On, actor string, in *ForkIn) error {
	opts := actorstore.ForkOptions{Wake: in.Wake, Progress: in.Progress, Attributes: attributes.SetReadable}
	if err := nameNew(&opts, in.To); err != nil {
		return err
	}
	id, err := idOf(ctx, on.Store, actor)
	if err != nil {
		return err
	}
	from, err := on.Store.Lower().View(ctx, id)
	if err != nil {
		return err
	}
	_, err = on.Store.Lower().Fork(ctx, from.Snapshot, &opts)
	return errors.Join(forkError(in.To, err), from.Close())
}

// nameNew sets what a new actor is called.
func nameNew(opts *actorstore.ForkOptions, to string) error {
	if text, ok := strings.CutPrefix(to, "id:"); ok {
		id, err := actorstore.ParseID(text)
		if err != nil {
			return &Error{Code: "invalid", Message: to + " is not the id of an actor: an id is 30 letters and digits, as ls shows it"}
		}
		opts.ID = id
	} else if opts.Name = to; to == "" {
		return &Error{Code: "invalid", Message: "the name of the new actor is empty"}
	}
	return nil
}

// forkError says why the new actor wasn't made.
func forkError(name string, err error) error {
	var quota *actorstore.QuotaError
	switch {
	case errors.Is(err, actorstore.ErrExists), errors.Is(err, actorstore.ErrNameTaken):
		return say(err, "there is an actor %s already", name)
	case errors.Is(err, actorstore.ErrName):
		_, text, _ := strings.Cut(err.Error(), actorstore.ErrName.Error())
		return &Error{Code: "invalid", Message: strings.TrimPrefix(actorstore.ErrName.Error(), "actorstore: ") + text}
	case errors.As(err, &quota):
		return say(err, "the actor does not fit: it has more than the %d bytes that an actor may store here", quota.Limit)
	case err != nil && !errors.Is(err, context.Canceled):
		return fmt.Errorf("actor %s: %w", name, err)
	}
	return err
}

// Drop removes an actor with everything in it; its code isn't asked.
var Drop = quiet("drop", "Remove the actor with all that it has.", drop)

func drop(ctx context.Context, on On, actor string, _ *None) error {
	id, err := idOf(ctx, on.Store, actor)
	if err != nil {
		return err
	}
	return on.Actors.DropID(ctx, id)
}
