package admin

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/attributes"
)

// Restore makes a new actor of what an actor had in a state that a backup of the store has; see archive.Archive.View. The actor may have
// been dropped since.
var Restore = &StoreVerb[RestoreIn]{"restore", "Make a new actor with all that the actor had, of a backup.", restore}

// RestoreIn is the request of Restore.
type RestoreIn struct {
	Bookmark string `json:"bookmark"` // of the state, as greenroom restore says it
	To       string `json:"to"`       // the name of the new actor, or id: and the text of its id
	// Progress, where the store is open in this process, is told how many bytes were copied.
	Progress func(used int64) `json:"-"`
}

func restore(ctx context.Context, on On, actor string, in *RestoreIn) (err error) {
	if on.Archive == nil {
		return &Error{Code: "unsupported", Message: "the process that has the store writes no backups"}
	}
	mark, err := archive.ParseBookmark(in.Bookmark)
	if err != nil {
		return &Error{Code: "invalid", Message: err.Error()}
	}
	opts := actorstore.ForkOptions{Progress: in.Progress, Attributes: attributes.SetReadable}
	if err := nameNew(&opts, in.To); err != nil {
		return err
	}
	a, err := on.Archive(ctx)
	if err != nil {
		return err
	}
	v, err := a.Actor(ctx, mark, actor)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	_, err = on.Store.Lower().Fork(ctx, v.Snapshot, &opts)
	return forkError(in.To, err)
}
