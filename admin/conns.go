package admin

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
)

// DiscardConnection deletes what is stored of a connection that can't be read, or the rows that belong to none.
var DiscardConnection = &Verb[DiscardConnectionIn, None]{"connections/discard", "Delete what is stored of a connection that can't be read.", discardConnection}

// DiscardConnectionIn is the request of DiscardConnection.
type DiscardConnectionIn struct {
	ID    string `json:"id,omitempty"`    // as ParseBytes reads it
	Stray bool   `json:"stray,omitempty"` // the rows that belong to no connection, instead of an ID
}

func discardConnection(ctx context.Context, a *greenroom.Actor, actor string, in *DiscardConnectionIn) (*None, error) {
	id, err := ParseBytes(in.ID, "id")
	if err != nil {
		return nil, err
	}
	set, err := a.Connections(ctx)
	if err != nil {
		return nil, err
	}
	if in.Stray {
		err = set.DiscardStray(ctx)
	} else {
		err = set.Discard(ctx, conn.ID(id))
	}
	switch {
	case in.Stray && errors.Is(err, actorstore.ErrCorrupt):
		err = say(err, "a connection of the actor %s has damaged rows, and there may be more behind them: "+
			`discard it first, see "greenroom conns ls"`, actor)
	case !in.Stray && errors.Is(err, conn.ErrUnknown):
		err = say(err, "the actor %s has no connection %q that can't be read", actor, string(id))
	}
	return &None{}, err
}
